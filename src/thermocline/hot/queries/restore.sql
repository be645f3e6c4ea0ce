-- name: known
select p.schema_name, p.name, p.lo, p.hi, p.state <> 'dropped' and i.inhrelid is not null, p.rows_in_lake is not null and p.state = 'tiered'
  from thermocline.partitions p
  join thermocline.tables t on t.id = p.table_id
  left join pg_inherits i on i.inhrelid = p.relid and i.inhparent = t.heap_oid
 where p.table_id = %(table_id)s and p.lo < %(t)s
 order by p.lo, p.hi

-- name: filled
select lo, hi, snapshot_id, schema_name, name, rows from thermocline.restored_ranges where table_id = %(table_id)s order by lo

-- name: forget
delete from thermocline.restored_ranges where table_id = %(table_id)s and lo = %(lo)s

-- name: note
insert into thermocline.restored_ranges (table_id, lo, hi, snapshot_id, schema_name, name, rows)
values (%(table_id)s, %(lo)s, %(hi)s, %(snapshot)s, %(schema)s, %(name)s, %(rows)s)

-- name: make
create table {filled} (like {heap} including all excluding identity)

-- name: bounded
alter table {filled} add constraint thermocline_bounds check ({condition})

-- name: fill
insert into {filled} ({writable}) select {s_writable} from {seam} s where {condition}

-- name: has_rows
select exists (select 1 from {seam} s where {condition})

-- name: hold_pending
create temporary table thermocline_pending on commit drop as
select d.* from {delta} d where d._folded is null and d.{tier_key} < {t}

-- name: index_pending
create index on pg_temp.thermocline_pending ({key_columns})

-- name: has_pending
select exists (select 1 from pg_temp.thermocline_pending d where d._op = 0 and {condition})

-- name: adopt_partition
insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state, rows_in_lake)
select %(table_id)s, %(schema)s, %(name)s, to_regclass(%(filled)s)::oid, %(lo)s, %(hi)s, 'tiered', %(rows)s

-- name: make_whole
update thermocline.partitions set rows_in_lake = %(rows)s
 where table_id = %(table_id)s and schema_name = %(schema)s and name = %(name)s and state <> 'dropped'

-- name: attach
alter table {heap} attach partition {partition} for values from ({lo}) to ({hi})

-- name: make_empty
create table {partition} partition of {heap} for values from ({lo}) to ({hi})

-- name: fill_existing
insert into {partition} ({writable}) overriding system value
select {s_writable} from {filled} s where not exists (select 1 from {partition} h where {key_is})

-- name: take_pending
delete from {heap} h using pg_temp.thermocline_pending d where {key_is}

-- name: put_pending
insert into {heap} ({writable}) overriding system value select {writable} from pg_temp.thermocline_pending d where d._op = 0
