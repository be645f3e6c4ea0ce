-- Whether the registrations were made here, as far as Postgres can tell.
create or replace function thermocline.is_original_database() returns boolean
    language sql stable set search_path = pg_catalog as $$
    select coalesce(bool_and(h.database_oid = d.oid
                             and coalesce(h.system_identifier = thermocline.system_identifier(), true)), true)
      from thermocline.database_identity h, pg_database d where d.datname = current_database() $$;
