-- This database is the original from now on. The names of tables that could not be bound, each with the reason: nothing
-- follows them.
create or replace function thermocline.claim_database() returns table (heap text, reason text)
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    is_bound boolean := exists (select from thermocline.database_identity h
                                  where h.catalog_oid = 'thermocline.tables'::regclass);
    t record;
begin
    if thermocline.is_original_database() then return; end if;
    perform set_config('thermocline.following', 'on', true);
    if not is_bound then
        delete from thermocline.enum_labels;
        delete from thermocline.type_shapes;
        update thermocline.kept_lakes set heap_oid = 0;
    end if;
    delete from thermocline.workers;
    delete from thermocline.standbys;
    for t in select r.id, format('%I.%I', r.schema_name, r.table_name) as heap,
                    thermocline.why_not_bound(r.id) as reason,
                    exists (select from thermocline.tables_here h where h.id = r.id) as is_here
               from thermocline.tables r order by r.id
    loop
        perform thermocline.forget_transactions(t.id);
        continue when t.is_here;
        if t.reason is null then
            perform thermocline.bind_table(t.id);
        else
            update thermocline.tables x set heap_oid = 0 where x.id = t.id;
            return query select t.heap, t.reason;
        end if;
    end loop;
    update thermocline.database_identity h
       set system_identifier = thermocline.system_identifier(), database_oid = d.oid,
           catalog_oid = 'thermocline.tables'::regclass, lakes_checked = null, since = now()
      from pg_database d where d.datname = current_database();
    perform set_config('thermocline.following', '', true);
end $$;
revoke all on function thermocline.claim_database() from public;
