-- The routing and capture functions of every table, rendered again: an upgrade brought other templates. Tables of a
-- restored dump that was not claimed yet are left out; claiming renders theirs.
create or replace function thermocline.rebuild_functions() returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t record;
begin
    for t in select r.id from thermocline.tables r
              where to_regclass(format('%I.%I', r.schema_name, r.table_name)) = r.heap_oid order by r.id
    loop
        perform thermocline.apply_functions(t.id);
    end loop;
end $$;
revoke all on function thermocline.rebuild_functions() from public;
