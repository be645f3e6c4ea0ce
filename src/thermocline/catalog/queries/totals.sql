-- name: ops
select t.schema_name, t.table_name, o.kind, o.published, o.abandoned, o.rows, o.bytes
  from thermocline.op_totals o join thermocline.tables t on t.id = o.table_id
 order by t.schema_name, t.table_name, o.kind

-- name: tables
select t.schema_name, t.table_name, c.t, c.s, coalesce(y.finished, 0) as finished, coalesce(y.failed, 0) as failed,
       extract(epoch from y.at)::float8 as cycle_at_seconds, w.rows as waiting_rows,
       extract(epoch from clock_timestamp() - w.since)::float8 as waiting_seconds,
       exists (select from thermocline.paused p where p.table_id is null or p.table_id = t.id) as is_paused
  from thermocline.tables t join thermocline.cutline c on c.table_id = t.id
  left join thermocline.cycles y on y.table_id = t.id
  left join thermocline.waiting_corrections w on w.table_id = t.id
 order by t.schema_name, t.table_name

-- name: partitions
select t.schema_name, t.table_name, p.state, count(*) as partitions
  from thermocline.partitions p join thermocline.tables t on t.id = p.table_id
 group by t.id, p.state order by t.schema_name, t.table_name, p.state
