-- Only a superuser can create an event trigger. Without it the next cycle does what it would have done.
do $$
begin
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        drop event trigger if exists thermocline_alter_start;
        create event trigger thermocline_alter_start on ddl_command_start when tag in ('ALTER TABLE')
            execute function thermocline.on_alter_start();
    end if;
end $$;
