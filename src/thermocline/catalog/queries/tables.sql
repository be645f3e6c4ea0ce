-- name: insert_table
insert into thermocline.tables (schema_name, table_name, heap_oid, mode, pk, tier_key, key_type, tiering_lag,
                                reclaim_lag, lake_partition, lake_namespace, lake_name, lake_uuid, lake_location,
                                seam_schema, object_name, spill_schema, spill_name,
                                lake_retention, partition_width, premake, profile, lake_until, started_at)
values (%(schema)s, %(table)s, %(heap_oid)s, %(mode)s, %(pk)s, %(tier_key)s, %(key_type)s, %(tiering_lag)s,
        %(reclaim_lag)s, %(lake_partition)s, %(lake_namespace)s, %(lake_name)s, %(lake_uuid)s, %(lake_location)s,
        %(seam_schema)s, %(object_name)s, %(spill_schema)s, %(spill_name)s,
        %(lake_retention)s, %(partition_width)s, %(premake)s, %(profile)s, %(lake_until)s,
        case when %(is_started)s then now() end)
returning id

-- name: insert_column
insert into thermocline.columns (table_id, position, name, attnum, base_type, pg_type, lake_type, form, field_id,
                                 required, missing)
values (%(table_id)s, %(position)s, %(name)s, %(attnum)s, %(base_type)s, %(pg_type)s, %(lake_type)s, %(form)s,
        %(field_id)s, %(required)s, %(missing)s)

-- name: insert_cutline
insert into thermocline.cutline (table_id, t, seam_line, seam_floor) values (%(table_id)s, %(t)s, %(t)s, %(t)s)

-- name: table_by_name
select id, schema_name, table_name, heap_oid, mode, pk, tier_key, key_type, tiering_lag, reclaim_lag, lake_partition,
       lake_namespace, lake_name, lake_uuid, lake_location, seam_schema, object_name, spill_schema, spill_name,
       lake_retention, partition_width, premake, profile, lake_until, started_at
  from thermocline.tables where schema_name = %(schema)s and table_name = %(table)s

-- name: all_tables
select id, schema_name, table_name, heap_oid, mode, pk, tier_key, key_type, tiering_lag, reclaim_lag, lake_partition,
       lake_namespace, lake_name, lake_uuid, lake_location, seam_schema, object_name, spill_schema, spill_name,
       lake_retention, partition_width, premake, profile, lake_until, started_at
  from thermocline.tables order by schema_name, table_name

-- name: columns
select name, attnum, base_type, pg_type, lake_type, form, field_id, required, missing
  from thermocline.columns where table_id = %(table_id)s order by position

-- name: delete_table
delete from thermocline.tables where id = %(table_id)s

-- name: insert_event
insert into thermocline.events (table_id, action, sentence) values (%(table_id)s, %(action)s, %(sentence)s)

-- name: start
update thermocline.tables set started_at = now() where id = %(table_id)s and started_at is null

-- name: stop
update thermocline.tables set started_at = null where id = %(table_id)s and started_at is not null

-- name: is_started
select started_at is not null from thermocline.tables where id = %(table_id)s

-- name: reclaim_lag
select reclaim_lag from thermocline.tables where id = %(table_id)s

-- name: not_started
select concat(schema_name, '.', table_name) as name from thermocline.tables where started_at is null order by 1

-- name: change_settings
update thermocline.tables set tiering_lag = %(tiering_lag)s, reclaim_lag = %(reclaim_lag)s,
       lake_retention = %(lake_retention)s, premake = %(premake)s
 where id = %(table_id)s
