create or replace function thermocline.on_alter_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    loosened bigint[] := string_to_array(nullif(current_setting('thermocline.loosened', true), ''), ',')::bigint[];
    t record;
begin
    if current_setting('thermocline.following', true) = 'on' then return; end if;
    for t in select r.id from thermocline.tables_here r
              where r.id = any (loosened) or r.heap_oid in (select c.objid from pg_event_trigger_ddl_commands() c)
    loop
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.follow_schema(t.id, coalesce(t.id = any (loosened), false));
        perform set_config('thermocline.following', '', true);
    end loop;
    perform set_config('thermocline.loosened', '', true);
end $$;
revoke all on function thermocline.on_alter_end() from public;
