-- Only a superuser can create an event trigger. Without it the next cycle does what it would have done.
do $$
begin
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        drop event trigger if exists thermocline_guard;
        create event trigger thermocline_guard on ddl_command_end
            when tag in ('ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA')
            execute function thermocline.on_guarded_end();
    end if;
end $$;
