-- name: metadata_location
select metadata_location from thermocline_iceberg.iceberg_tables
 where catalog_name = 'thermocline' and table_namespace = %(namespace)s and table_name = %(name)s

-- name: ranges
select schema_name, name, lo, hi, state from thermocline.partitions
 where table_id = %(table_id)s and state in ('tiered', 'dropped') and hi <= %(t)s order by lo, hi

-- name: sums
select op_id::text, counters -> 'sums' from thermocline.op_log
 where table_id = %(table_id)s and phase = 'published' and counters ? 'sums' order by started_at

-- name: files_leave
select exists (select from thermocline.op_log where table_id = %(table_id)s and phase = 'published' and kind not in ('tier', 'fold', 'maintain'))
