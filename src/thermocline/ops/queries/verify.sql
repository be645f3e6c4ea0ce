-- name: metadata_location
select metadata_location from thermocline_iceberg.iceberg_tables
 where catalog_name = 'thermocline' and table_namespace = %(namespace)s and table_name = %(name)s

-- name: ranges
-- The heap holds a range whole when it still has the very partition that was copied. That a row is not in it proves that it was deleted
-- while the partition was never out of the table: one that was detached and attached again has another capture trigger than sealed it.
select p.schema_name, p.name, p.lo, p.hi, p.state = 'tiered' and p.rows_in_lake is not null and i.inhrelid is not null,
       exists (select from pg_trigger g where g.oid = p.seal and g.tgrelid = p.relid)
  from thermocline.partitions p join thermocline.tables t on t.id = p.table_id
  left join pg_inherits i on i.inhrelid = p.relid and i.inhparent = t.heap_oid and not i.inhdetachpending
 where p.table_id = %(table_id)s and p.state in ('tiered', 'dropped') and p.hi <= %(t)s order by p.lo, p.hi

-- name: sums
select op_id::text, counters -> 'sums' from thermocline.op_log
 where table_id = %(table_id)s and phase = 'published' and counters ? 'sums' order by started_at

-- name: files_leave
select exists (select from thermocline.op_log where table_id = %(table_id)s and phase = 'published' and kind not in ('tier', 'fold', 'maintain'))
