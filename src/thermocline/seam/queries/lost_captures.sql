-- name: capture_is_on
-- Seals leave it firing always ('A'): whoever disabled triggers and enabled them again has left it at 'O'.
select exists (select 1 from pg_trigger where tgrelid = %(relid)s and tgname = %(trigger)s and tgenabled = 'A')

-- name: note_capture_lost
update thermocline.partitions set capture_lost_at = clock_timestamp() where table_id = %(table_id)s
    and relid = %(relid)s

-- name: capture_was_lost
select capture_lost_at is not null from thermocline.partitions where table_id = %(table_id)s and relid = %(relid)s

-- name: lost_captures
-- Partitions whose capture fires now: from this snapshot on every change of theirs is captured.
select p.relid, p.lo, p.hi, p.capture_lost_at as lost_at from thermocline.partitions p
  join pg_trigger g on g.tgrelid = p.relid and g.tgname = %(trigger)s and g.tgenabled = 'A'
 where p.table_id = %(table_id)s and p.capture_lost_at is not null

-- name: lost_spill_capture
select t.spill_capture_lost_at from thermocline.tables t
 where t.id = %(table_id)s and thermocline.is_captured(to_regclass(format('%%I.%%I', t.spill_schema, t.spill_name)))

-- name: note_spill_capture
select thermocline.note_spill_capture(%(table_id)s)

-- name: trust_spill_capture
update thermocline.tables set spill_capture_lost_at = null where id = %(table_id)s
    and spill_capture_lost_at = %(lost_at)s

-- name: trust_captures
-- A loss that the snapshot did not show has another time, and stays.
update thermocline.partitions p set capture_lost_at = null
  from unnest(%(relids)s::oid[], %(lost_at)s::timestamptz[]) x (relid, lost_at)
 where p.table_id = %(table_id)s and p.relid = x.relid and p.capture_lost_at = x.lost_at
