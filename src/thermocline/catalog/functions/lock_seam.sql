-- Takes the view's lock and changes nothing. Whoever rebuilds the view takes it before any lock on the heap, as its
-- readers do.
create or replace function thermocline.lock_seam(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    seam oid := (select to_regclass(format('%I.%I', t.seam_schema, t.table_name)) from thermocline.tables t
                  where t.id = of_table);
begin
    if seam is null then return; end if;
    execute format('alter view %s owner to %I', seam::regclass, (select pg_get_userbyid(c.relowner) from pg_class c
                                                                  where c.oid = seam));
end $$;
revoke all on function thermocline.lock_seam(bigint) from public;
