-- name: pending
d._folded is null and d.{tier_key} >= {lo} and d.{tier_key} < {hi}

-- name: count_pending
select count(*) from {delta} d where d._folded is null and thermocline.axis(d.{tier_key}) < %(t)s

-- name: edges
select thermocline.axis(min(p.{tier_key})), count(*)
  from (select d.{tier_key}, (row_number() over (order by d.{tier_key}) - 1) / %(range_rows)s::bigint as piece
          from {delta} d where d._folded is null and d.{tier_key} < {hi}) p
 group by p.piece order by p.piece

-- name: mark
update {delta} d set _folded = pg_current_xact_id()
 where d.ctid = any (array(
    select m.ctid from {delta} m join unnest(%(versions)s::bigint[]) v (version) on m._version = v.version
     where m._folded is null for update of m skip locked))

-- name: mark_and_unspill
with mine as materialized (
    select m.ctid as at from {delta} m join unnest(%(versions)s::bigint[]) v (version) on m._version = v.version
     where m._folded is null for update of m skip locked),
spilled as materialized (
    select x.at, s.ctid as spill_at from mine x join {delta} m on m.ctid = x.at join {spill} s on {spill_is_mine}
     where m._op = 0 and record_image_eq(row({s_columns}), row({m_columns}))),
held as materialized (
    select s.ctid as spill_at from {spill} s where s.ctid = any (array(select spill_at from spilled)) for update skip locked),
kept as (
    select x.at from mine x
     where not exists (select from spilled p where p.at = x.at and p.spill_at not in (select h.spill_at from held h))),
gone as (
    delete from {spill} s where s.ctid = any (array(select h.spill_at from held h)))
update {delta} d set _folded = pg_current_xact_id() where d.ctid = any (array(select k.at from kept k))

-- name: plan_for_many
select set_config('enable_nestloop', 'off', true)

-- name: quiet_triggers
select set_config('session_replication_role', 'replica', true) from pg_roles r where r.rolname = current_user and r.rolsuper

-- name: purge
delete from {delta} d where d.ctid = any (array(
    select m.ctid from {delta} m where m._folded = %(xid)s::xid8 for update of m skip locked))

-- name: is_purged
select not exists (select from {delta} d where d._folded = %(xid)s::xid8)

-- name: inexact_collations
select a.attname from pg_attribute a join pg_collation c on c.oid = a.attcollation
 where a.attrelid = %(relid)s and not c.collisdeterministic
