-- name: add
insert into thermocline.lake_tables (catalog, namespace, name) values (%(catalog)s, %(namespace)s, %(name)s)
on conflict (catalog, namespace, name) do nothing

-- name: by_name
select id, namespace, name, added_at from thermocline.lake_tables
 where catalog = %(catalog)s and namespace = %(namespace)s and name = %(name)s

-- name: by_id
select id, namespace, name, added_at from thermocline.lake_tables where id = %(lake_id)s

-- name: all
select id, namespace, name, added_at from thermocline.lake_tables order by namespace, name

-- name: remove
delete from thermocline.lake_tables where id = %(lake_id)s

-- name: is_registered
select schema_name, table_name from thermocline.tables where lake_namespace = %(namespace)s and lake_name = %(name)s

-- name: maintained
select m.table_id, m.lake_id, m.namespace, m.name, m.schema_name, m.table_name, i.metadata_location
  from thermocline.maintained m
  left join thermocline_iceberg.iceberg_tables i
    on i.catalog_name = m.catalog and i.table_namespace = m.namespace and i.table_name = m.name
 order by m.namespace, m.name
