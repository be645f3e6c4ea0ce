-- The role whose rights count: the one of SET ROLE, else the login. The functions below run as our own role, so
-- `current_user` would be ours.
create or replace function thermocline.calling_role() returns name
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(nullif(current_setting('role'), 'none')::name, session_user) $$;
