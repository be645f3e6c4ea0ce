-- name: partitions_below
select p.schema_name, p.name, p.lo, p.hi, p.is_attached, p.is_whole from thermocline.partitions_in_heap p
 where p.table_id = %(table_id)s and p.lo < %(t)s
 order by p.lo, p.hi

-- name: filled
-- A fold of nothing but deletes, or a purge, may change what readers see and leave the snapshot as it is: so the op is
-- compared too.
select f.lo, f.hi, f.schema_name, f.name, f.rows,
       f.snapshot_id is not distinct from c.s and f.schema_version = t.schema_version
       and f.last_op is not distinct from (select o.op_id from thermocline.op_log o
                                            where o.table_id = t.id and o.phase = 'published'
                                            order by o.published_xid desc limit 1) as is_current
  from thermocline.restored_ranges f join thermocline.tables t on t.id = f.table_id
      join thermocline.cutline c on c.table_id = t.id
 where f.table_id = %(table_id)s order by f.lo

-- name: forget
delete from thermocline.restored_ranges where table_id = %(table_id)s and lo = %(lo)s

-- name: note
insert into thermocline.restored_ranges (table_id, lo, hi, snapshot_id, schema_name, name, rows, schema_version,
    last_op)
select t.id, %(lo)s, %(hi)s, %(snapshot)s, %(schema)s, %(name)s, %(rows)s, t.schema_version,
       (select o.op_id from thermocline.op_log o where o.table_id = t.id
           and o.phase = 'published' order by o.published_xid desc limit 1)
  from thermocline.tables t where t.id = %(table_id)s

-- name: make
create table {filled} (like {heap} including all excluding identity)

-- name: bounded
alter table {filled} add constraint thermocline_bounds check ({condition})

-- name: fill
insert into {filled} ({writable}) select {s_writable} from {seam} s where {condition}

-- name: has_rows
-- Deletes count too: the lake may hold what they delete, and would show it to whoever takes it up, unless the heap is
-- known to be whole.
select exists (select 1 from {seam} s where {condition})
    or exists (select 1 from {delta} s where s._folded is null and {condition})

-- name: lacking
select count(*) from {seam} s where {condition} and not exists (select 1 from {heap} h where {h_is_s})

-- name: hold_pending
create temporary table thermocline_pending on commit drop as
select d.* from {delta} d where d._folded is null and ({condition})

-- name: index_pending
create index on pg_temp.thermocline_pending ({key_columns})

-- name: has_pending
select exists (select 1 from pg_temp.thermocline_pending d where {condition})

-- name: adopt_partition
insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state, rows_in_lake, filled_xid)
select %(table_id)s, %(schema)s, %(name)s, to_regclass(%(filled)s)::oid, %(lo)s, %(hi)s, 'tiered', %(rows)s,
    pg_current_xact_id()

-- name: make_whole
update thermocline.partitions set rows_in_lake = %(rows)s, filled_xid = pg_current_xact_id()
 where table_id = %(table_id)s and schema_name = %(schema)s and name = %(name)s and state <> 'dropped'

-- name: attach
alter table {heap} attach partition {partition} for values from ({lo}) to ({hi})

-- name: fill_existing
insert into {partition} ({writable}) overriding system value
select {s_writable} from {filled} s where not exists (select 1 from {partition} h where {h_is_s})

-- name: take_pending
delete from {heap} h using pg_temp.thermocline_pending d where {h_is_d}

-- name: put_pending
insert into {heap} ({writable}) overriding system value select {writable} from pg_temp.thermocline_pending d
    where d._op = 0

-- name: held_names
select c.oid, c.relkind::text, c.relname from pg_class c
 where c.oid = to_regclass(%(table)s)
     or c.oid in (select i.indexrelid from pg_index i where i.indrelid = to_regclass(%(table)s))
 order by c.relkind desc, c.oid
