-- Only a superuser can create an event trigger. Without it the next cycle does what it would have done.
do $$
begin
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        drop event trigger if exists thermocline_type_end;
        create event trigger thermocline_type_end on ddl_command_end
            when tag in ('ALTER TYPE', 'ALTER DOMAIN', 'ALTER TABLE')
            execute function thermocline.on_type_end();
    end if;
end $$;
