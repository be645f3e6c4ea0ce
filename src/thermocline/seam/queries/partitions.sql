-- name: known
select relid, state from thermocline.partitions where table_id = %(table_id)s and state <> 'dropped'

-- name: discover
-- A sealed partition keeps the bounds of what was sealed: `broken_seal` looks for it by them while its move is undecided.
insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi)
values (%(table_id)s, %(schema)s, %(name)s, %(relid)s, %(lo)s, %(hi)s)
on conflict (table_id, relid) where state <> 'dropped' do update
   set schema_name = excluded.schema_name, name = excluded.name,
       lo = case when partitions.state = 'hot' then excluded.lo else partitions.lo end,
       hi = case when partitions.state = 'hot' then excluded.hi else partitions.hi end
 where (partitions.schema_name, partitions.name) <> (excluded.schema_name, excluded.name)
    or (partitions.state = 'hot' and (partitions.lo, partitions.hi) <> (excluded.lo, excluded.hi))

-- name: forget_moved
-- Bounds change only by DETACH and ATTACH: what was copied is another range, and what the partition holds now nobody has captured. A tiered
-- one at or above T cannot be, either. Not while a move is undecided: its publication looks at the states and seals as they were.
delete from thermocline.partitions p
 using thermocline.cutline c, unnest(%(relids)s::oid[], %(los)s::bigint[], %(his)s::bigint[]) found(relid, lo, hi)
 where p.table_id = %(table_id)s and c.table_id = p.table_id and p.relid = found.relid and p.state not in ('hot', 'dropped')
   and ((p.lo, p.hi) <> (found.lo, found.hi) or (p.state = 'tiered' and p.lo >= c.t))
   and not exists (select from thermocline.op_log o
                    where o.table_id = p.table_id and o.kind = 'tier' and o.phase not in ('published', 'abandoned'))

-- name: forget_vanished
delete from thermocline.partitions where table_id = %(table_id)s and state <> 'dropped' and relid <> all(%(relids)s::oid[])
returning name, state

-- name: size
select pg_relation_size(%(relid)s::oid)

-- name: lowest_beyond
select thermocline.axis(min(s.{tier_key})) from {spill} s where s.{tier_key} >= {bound}

-- name: clock
select thermocline.axis(clock_timestamp())

-- name: wall_clock
select thermocline.axis((clock_timestamp() at time zone 'UTC') - interval '12 hours')

-- name: today
select thermocline.axis(((clock_timestamp() at time zone 'UTC') - interval '12 hours')::date)

-- name: set_state
update thermocline.partitions set state = %(state)s where table_id = %(table_id)s and relid = any(%(relids)s::oid[])

-- name: note_seal
update thermocline.partitions p set seal = g.oid, seal_file = pg_relation_filenode(p.relid)
  from thermocline.tables t, pg_inherits i, pg_trigger g
 where p.table_id = %(table_id)s and p.relid = %(relid)s and t.id = p.table_id and to_regclass(%(name)s) = p.relid
   and i.inhrelid = p.relid and i.inhparent = t.heap_oid and not i.inhdetachpending and g.tgrelid = p.relid and g.tgname = %(trigger)s

-- name: is_still_it
-- By its name another partition, with rows that nobody copied, may be meant by now; or the same one with other bounds.
select exists (select from thermocline.tables t join pg_inherits i on i.inhparent = t.heap_oid
                where t.id = %(table_id)s and i.inhrelid = %(relid)s and to_regclass(%(name)s) = i.inhrelid
                  and thermocline.lower_bound(i.inhrelid, t.key_type) = %(lo)s)

-- name: set_tiered
update thermocline.partitions set state = 'tiered', tiered_xid = pg_current_xact_id() where table_id = %(table_id)s and relid = %(relid)s

-- name: set_rows
update thermocline.partitions set rows_in_lake = %(rows)s where table_id = %(table_id)s and relid = %(relid)s

-- name: capture_is_on
-- Seals leave it firing always ('A'): whoever disabled triggers and enabled them again has left it at 'O'.
select exists (select 1 from pg_trigger where tgrelid = %(relid)s and tgname = %(trigger)s and tgenabled = 'A')

-- name: note_capture_lost
update thermocline.partitions set capture_lost_at = clock_timestamp() where table_id = %(table_id)s and relid = %(relid)s

-- name: capture_was_lost
select capture_lost_at is not null from thermocline.partitions where table_id = %(table_id)s and relid = %(relid)s

-- name: watched
-- Partitions whose capture fires now: from this snapshot on every change of theirs is captured.
select p.relid, p.lo, p.hi, p.capture_lost_at from thermocline.partitions p
  join pg_trigger g on g.tgrelid = p.relid and g.tgname = %(trigger)s and g.tgenabled = 'A'
 where p.table_id = %(table_id)s and p.capture_lost_at is not null

-- name: spill_watched
select t.spill_capture_lost_at from thermocline.tables t
 where t.id = %(table_id)s and thermocline.is_captured(to_regclass(format('%%I.%%I', t.spill_schema, t.spill_name)))

-- name: note_spill_capture
select thermocline.note_spill_capture(%(table_id)s)

-- name: note_spill_compared
update thermocline.tables set spill_capture_lost_at = null where id = %(table_id)s and spill_capture_lost_at = %(lost_at)s

-- name: note_compared
-- A loss that the snapshot did not show has another time, and stays.
update thermocline.partitions p set capture_lost_at = null
  from unnest(%(relids)s::oid[], %(lost_at)s::timestamptz[]) x (relid, lost_at)
 where p.table_id = %(table_id)s and p.relid = x.relid and p.capture_lost_at = x.lost_at

-- name: reads_all_statistics
select r.rolsuper or pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') from pg_roles r where r.rolname = current_user

-- name: tiered_xid
select tiered_xid::text from thermocline.partitions where table_id = %(table_id)s and relid = %(relid)s

-- name: note_standbys
select thermocline.note_standbys(%(grace_seconds)s)

-- name: older_readers
select r.what from thermocline.live_snapshots r
 where age(r.oldest) >= age(%(xid)s::xid8::xid)
 order by age(r.oldest) desc limit 1

-- name: standby_without_feedback
select r.what from thermocline.silent_standbys r, thermocline.partitions p
 where p.table_id = %(table_id)s and p.relid = %(relid)s and p.changed_at > now() - make_interval(secs => %(grace_seconds)s)
 limit 1

-- name: blockers
select format('session %%s (%%s, %%s)', a.pid, a.usename, coalesce(a.state, 'active'))
  from pg_locks l join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'relation' and l.relation = any(%(relids)s::oid[]) and l.granted and l.pid <> pg_backend_pid()
   and a.xact_start is not null
 order by a.xact_start limit 1
