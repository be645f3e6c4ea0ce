-- A column's type by its own name, qualified where it is not Postgres' own.
create or replace function thermocline.base_type(type_oid oid) returns text
    language sql stable set search_path = pg_catalog as $$
    select case when n.nspname = 'pg_catalog' then t.typname::text else format('%I.%I', n.nspname, t.typname) end
      from pg_type t join pg_namespace n on n.oid = t.typnamespace where t.oid = type_oid $$;
