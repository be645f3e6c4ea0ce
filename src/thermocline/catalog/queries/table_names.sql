-- These run under the login's own search_path, so everything in them is qualified.

-- name: has_catalog
select pg_catalog.to_regclass('thermocline.tables') is not null as found

-- name: resolve
select c.oid, n.nspname as schema_name, c.relname as table_name
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace
 where c.oid operator(pg_catalog.=) pg_catalog.to_regclass(%(name)s::pg_catalog.text)::pg_catalog.oid

-- name: heap_of_seam
select t.schema_name, t.table_name from thermocline.tables t
 where pg_catalog.to_regclass(pg_catalog.format('%%I.%%I', t.seam_schema, t.table_name))::pg_catalog.oid
       operator(pg_catalog.=) %(oid)s::pg_catalog.oid

-- name: search_path
select coalesce(nullif(pg_catalog.array_to_string(pg_catalog.current_schemas(false), ', '), ''), 'which is empty')
    as path

-- name: registered
select pg_catalog.format('%I.%I', schema_name, table_name) as name from thermocline.tables
 order by 1 using operator(pg_catalog.<)
