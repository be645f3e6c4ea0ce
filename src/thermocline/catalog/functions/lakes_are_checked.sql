create or replace function thermocline.lakes_are_checked() returns boolean
    language sql stable set search_path = pg_catalog as $$
    select coalesce(bool_and(h.lakes_checked is not distinct from pg_postmaster_start_time()), true)
      from thermocline.database_identity h $$;
