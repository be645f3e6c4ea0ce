create or replace function thermocline.record_database_identity() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    insert into thermocline.database_identity (system_identifier, database_oid, catalog_oid, lakes_checked)
    select thermocline.system_identifier(), d.oid, 'thermocline.tables'::regclass, pg_postmaster_start_time()
      from pg_database d where d.datname = current_database()
    on conflict do nothing;
    return null;
end $$;
revoke all on function thermocline.record_database_identity() from public;
