-- A column that a view uses can be neither dropped nor given another type, so a seam is loosened (loosen_seam) before a
-- statement that may do so, and rebuilt after it; both in that statement's transaction. The text only decides whether
-- to loosen it: what changed is read from the catalogs afterwards. Where the text does not name the table (a call of a
-- function), Postgres refuses, as for any view.
create or replace function thermocline.on_alter_start() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    t record;
    lets_go boolean := current_query() ~* '\m(drop|type)\M';
begin
    if current_setting('thermocline.following', true) = 'on'
       or not (lets_go or current_query() ~* '\m(add|rename)\M') then return; end if;
    for t in select r.id from thermocline.tables_here r join pg_class h on h.oid = r.heap_oid
              where current_query() ~* ('(^|[^\w$])'
                                        || regexp_replace(replace(r.table_name, '"', '""'), '(\W)', '\\\1', 'g')
                                        || '($|[^\w$])')
                and pg_has_role(session_user, h.relowner, 'member')
    loop
        -- Readers lock the view, then the heap; so do we, to avoid a deadlock.
        perform thermocline.lock_seam(t.id);
        continue when not lets_go;
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.loosen_seam(t.id);
        perform set_config('thermocline.following', '', true);
        perform set_config('thermocline.loosened',
                           concat_ws(',', nullif(current_setting('thermocline.loosened', true), ''), t.id), true);
    end loop;
end $$;
revoke all on function thermocline.on_alter_start() from public;
