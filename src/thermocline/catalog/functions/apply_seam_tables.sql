-- Delta, foreign table and spill of a table. Foreign table and spill belong to the heap's owner, so that nothing runs
-- with more rights; the delta is ours (apply_delta_owner).
create or replace function thermocline.apply_seam_tables(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    parts jsonb := thermocline.seam_parts(of_table, 0);
    owner text := (select pg_get_userbyid(c.relowner) from pg_class c join thermocline.tables t on t.heap_oid = c.oid
                    where t.id = of_table);
    made record;
begin
    perform thermocline.apply_domains(of_table);
    for made in select * from (values ('delta', 'table', 'delta'), ('foreign_table', 'foreign table', 'lake'),
                                      ('spill', 'table', 'spill')) m(template, kind, relation)
    loop
        execute thermocline.render(made.template, parts);
        continue when made.template = 'delta';
        execute format('alter %s %s owner to %I', made.kind, parts ->> made.relation, owner);
    end loop;
    perform thermocline.apply_delta_owner(of_table);
end $$;
revoke all on function thermocline.apply_seam_tables(bigint) from public;
