-- name: profiles
select p.name, p.warehouse, p.is_default, count(t.id) as tables
  from thermocline.storage_profiles p left join thermocline.tables t on t.profile = p.name
 group by p.name order by p.name

-- name: profile
select name, warehouse, is_default, 0 as tables from thermocline.storage_profiles
 where case when %(name)s::text is null then is_default else name = %(name)s end

-- name: no_default
update thermocline.storage_profiles set is_default = false where is_default and %(is_default)s

-- name: insert_profile
insert into thermocline.storage_profiles (name, warehouse, is_default) values (%(name)s, %(warehouse)s, %(is_default)s)
on conflict (name) do update set is_default = storage_profiles.is_default or excluded.is_default
 where storage_profiles.warehouse = excluded.warehouse
returning name

-- name: default_warehouse
select location from thermocline.default_warehouse

-- name: record_default_warehouse
insert into thermocline.default_warehouse (location) values (%(location)s)
on conflict (only_one) do update set location = excluded.location, since = now()
 where default_warehouse.location <> excluded.location

-- name: settle_default_warehouse
insert into thermocline.default_warehouse (location) values (%(location)s) on conflict (only_one) do nothing

-- name: lock
select name, warehouse, is_default, 0 as tables from thermocline.storage_profiles where name = %s for update

-- name: users
select format('%%I.%%I', schema_name, table_name) from thermocline.tables where profile = %(name)s
union
select format('%%I.%%I (unregistered, its lake kept)', schema_name, table_name) from thermocline.kept_lakes
 where profile = %(name)s
order by 1

-- name: delete
delete from thermocline.storage_profiles where name = %(name)s
