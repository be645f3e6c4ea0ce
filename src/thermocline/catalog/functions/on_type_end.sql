-- A type that would no longer read what the lake may hold is refused at once; what needs nothing (a value more, another
-- name of an attribute) is noted. Row types of tables change by ALTER TABLE.
create or replace function thermocline.on_type_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    t record;
begin
    if current_setting('thermocline.following', true) = 'on'
       or (tg_tag = 'ALTER TABLE'
           and not exists (select from pg_event_trigger_ddl_commands() c join pg_class r on r.oid = c.objid
                             join thermocline.type_shapes k on k.type_oid = r.reltype)) then return; end if;
    for t in select r.id, thermocline.changed_type(r.id) as change from thermocline.tables_here r loop
        continue when t.change is null;
        if thermocline.has_rows_outside(t.id) then
            perform thermocline.refuse_change(t.id, t.change, null);
        end if;
    end loop;
    -- Only now: another table may use the same type.
    perform thermocline.note_types(r.id) from thermocline.tables_here r;
    for t in select r.id from thermocline.tables_here r where exists (select from thermocline.renamed_types(r.id)) loop
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.follow_schema(t.id);
        perform set_config('thermocline.following', '', true);
    end loop;
end $$;
revoke all on function thermocline.on_type_end() from public;
