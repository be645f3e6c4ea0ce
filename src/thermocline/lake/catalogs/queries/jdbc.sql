-- name: insert_table
insert into thermocline_iceberg.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location,
    iceberg_type)
values (%(catalog)s, %(namespace)s, %(name)s, %(location)s, 'TABLE')

-- name: insert_namespace
insert into thermocline_iceberg.iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
values (%(catalog)s, %(namespace)s, 'exists', 'true') on conflict do nothing

-- name: delete_table
delete from thermocline_iceberg.iceberg_tables
 where catalog_name = %(catalog)s and table_namespace = %(namespace)s and table_name = %(name)s

-- name: metadata_location
select metadata_location from thermocline_iceberg.iceberg_tables
 where catalog_name = %(catalog)s and table_namespace = %(namespace)s and table_name = %(name)s

-- name: swap
update thermocline_iceberg.iceberg_tables set metadata_location = %(after)s, previous_metadata_location = %(before)s
 where catalog_name = %(catalog)s and table_namespace = %(namespace)s and table_name = %(name)s
   and metadata_location = %(before)s

-- name: catalogs
-- Every JDBC catalog of the database: Iceberg keeps one in a table of this name, in whatever schema.
select c.oid::regclass::text as relation,
       has_table_privilege(c.oid, 'select') and has_schema_privilege(c.relnamespace, 'usage') as is_readable
  from pg_class c
 where c.relname = 'iceberg_tables' and c.relkind in ('r', 'p', 'v')
   and 3 = (select count(*) from pg_attribute a
             where a.attrelid = c.oid and not a.attisdropped
               and a.attname in ('catalog_name', 'table_namespace', 'table_name'))
   and exists (select from pg_attribute a
                where a.attrelid = c.oid and not a.attisdropped and a.attname = 'metadata_location')
 order by 1

-- name: all_metadata_locations
select catalog_name, table_namespace, table_name, metadata_location from {} where metadata_location is not null
