-- The routing and capture functions of every table, rendered again: an upgrade brought other templates.
--
-- Only of tables whose columns are those that the seam was built for: functions rendered for columns that were not
-- followed yet would pass their own check and lose values of a new column. Following renders those. The locks are those
-- of `follow_schema`, in its order, so that no ALTER TABLE comes in between. A table whose functions cannot be rendered
-- (its key is gone, its owner is a role that we may not act for) keeps the functions it has, and the others go on.
create or replace function thermocline.rebuild_functions() returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t record;
begin
    for t in select r.id, r.heap_oid from thermocline.tables r
              where to_regclass(format('%I.%I', r.schema_name, r.table_name)) = r.heap_oid order by r.id
    loop
        begin
            perform 1 from thermocline.cutline c where c.table_id = t.id for share;
            perform 1 from thermocline.tables r where r.id = t.id for update;
            execute format('lock table only %s in access share mode', t.heap_oid::regclass);
            if (select thermocline.shape_of(r.heap_oid) is not distinct from r.shape
                  from thermocline.tables r where r.id = t.id) then
                perform thermocline.apply_functions(t.id);
            end if;
        exception
        when lock_not_available or deadlock_detected or serialization_failure then
            raise;
        when others then
            insert into thermocline.events (table_id, action, sentence)
            values (t.id, 'upgrade', format('The functions of %s were not rendered again: %s.', t.heap_oid::regclass,
                                            sqlerrm));
        end;
    end loop;
end $$;
revoke all on function thermocline.rebuild_functions() from public;
