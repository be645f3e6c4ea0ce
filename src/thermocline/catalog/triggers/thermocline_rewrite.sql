-- Only a superuser can create an event trigger. Without it the next cycle does what it would have done.
do $$
begin
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        drop event trigger if exists thermocline_rewrite;
        create event trigger thermocline_rewrite on table_rewrite
            execute function thermocline.on_rewrite();
    end if;
end $$;
