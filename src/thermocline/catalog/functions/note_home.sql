create or replace function thermocline.note_home() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    insert into thermocline.home (system_identifier, database_oid, catalog_oid, lakes_checked)
    select thermocline.system_identifier(), d.oid, 'thermocline.tables'::regclass, pg_postmaster_start_time()
      from pg_database d where d.datname = current_database()
    on conflict do nothing;
    return null;
end $$;
revoke all on function thermocline.note_home() from public;
