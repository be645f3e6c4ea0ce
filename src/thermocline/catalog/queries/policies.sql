-- name: of_table
select maintenance_policy from thermocline.tables where id = %(table_id)s

-- name: of_lake
select maintenance_policy from thermocline.lake_tables where id = %(lake_id)s

-- name: of_namespace
select policy from thermocline.maintenance_policies where catalog = %(catalog)s and namespace = %(namespace)s

-- name: lock_table
select maintenance_policy from thermocline.tables where id = %(table_id)s for no key update

-- name: lock_lake
select maintenance_policy from thermocline.lake_tables where id = %(lake_id)s for no key update

-- name: lock_namespace
select policy from thermocline.maintenance_policies
 where catalog = %(catalog)s and namespace = %(namespace)s for no key update

-- name: store_table
update thermocline.tables set maintenance_policy = %(policy)s where id = %(table_id)s

-- name: store_lake
update thermocline.lake_tables set maintenance_policy = %(policy)s where id = %(lake_id)s

-- name: open_namespace
insert into thermocline.maintenance_policies (catalog, namespace) values (%(catalog)s, %(namespace)s)
    on conflict do nothing

-- name: store_namespace
update thermocline.maintenance_policies set policy = %(policy)s, changed_at = now()
 where catalog = %(catalog)s and namespace = %(namespace)s
