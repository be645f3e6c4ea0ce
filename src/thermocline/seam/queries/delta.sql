-- name: pending
d._folded is null and d.{tier_key} >= {lo} and d.{tier_key} < {hi}

-- name: share
and d._version % {shares}::bigint = {share}::bigint

-- name: count_pending
select count(*) from {delta} d where d._folded is null and d.{tier_key} < {hi}

-- name: waiting
select count(*), min(d._version), max(d._version) from {delta} d where d._folded is null and d.{tier_key} < {hi}

-- name: edges
select thermocline.axis(min(p.{tier_key})), count(*)
  from (select d.{tier_key}, (row_number() over (order by d.{tier_key}) - 1) / {range_rows}::bigint as piece
          from {delta} d where d._folded is null and d.{tier_key} < {hi}) p
 group by p.piece order by p.piece

-- name: mark
update {delta} d set _folded = pg_current_xact_id()
 where d.ctid = any (array(
    select m.ctid from {delta} m where m._folded is null
        and m._version <@ {versions}::int8multirange for update of m skip locked))

-- name: mark_and_unspill
with paired as materialized (
    select m.ctid as at, s.ctid as spill_at, m._op = 0 and s.ctid is not null
        and record_image_eq(row({s_columns}), row({m_columns})) as goes
      from {delta} m left join {spill} s on {s_is_m}
     where m._folded is null and m._version <@ {versions}::int8multirange),
mine as materialized (
    select m.ctid as at from {delta} m where m._folded is null
        and m._version <@ {versions}::int8multirange for update of m skip locked),
held as materialized (
    select s.ctid as spill_at from {spill} s
        where s.ctid = any (array(select p.spill_at from paired p where p.goes)) for update skip locked),
done as materialized (
    select m.at, h.spill_at from mine m join paired p on p.at = m.at left join held h on h.spill_at = p.spill_at
     where not p.goes or h.spill_at is not null),
gone as (
    delete from {spill} s where s.ctid = any (array(select d.spill_at from done d where d.spill_at is not null)))
update {delta} d set _folded = pg_current_xact_id() where d.ctid = any (array(select x.at from done x))

-- name: lock_spill
lock table only {spill} in row exclusive mode

-- name: plan_for_many
select set_config('enable_nestloop', 'off', true)

-- name: purge
delete from {delta} d where d.ctid = any (array(
    select m.ctid from {delta} m where m._folded = {xid}::xid8 for update of m skip locked))

-- name: is_purged
select not exists (select from {delta} d where d._folded = {xid}::xid8)

-- name: inexact_collations
select a.attname from pg_attribute a join pg_collation c on c.oid = a.attcollation
 where a.attrelid = %(relid)s and not c.collisdeterministic
