-- name: known
select relid, state from thermocline.partitions where table_id = %(table_id)s and state <> 'dropped'

-- name: discover
-- A sealed partition keeps the bounds of what was sealed: `broken_seal` looks for it by them while its move is
-- undecided.
insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi)
values (%(table_id)s, %(schema)s, %(name)s, %(relid)s, %(lo)s, %(hi)s)
on conflict (table_id, relid) where state <> 'dropped' do update
   set schema_name = excluded.schema_name, name = excluded.name,
       lo = case when partitions.state = 'hot' then excluded.lo else partitions.lo end,
       hi = case when partitions.state = 'hot' then excluded.hi else partitions.hi end
 where (partitions.schema_name, partitions.name) <> (excluded.schema_name, excluded.name)
    or (partitions.state = 'hot' and (partitions.lo, partitions.hi) <> (excluded.lo, excluded.hi))

-- name: forget_moved
-- Bounds change only by DETACH and ATTACH: what was copied is another range, and what the partition holds now nobody
-- has captured. A tiered one at or above T cannot be, either. Not while a move is undecided: its publication looks at
-- the states and seals as they were.
delete from thermocline.partitions p
 using thermocline.cutline c, unnest(%(relids)s::oid[], %(los)s::bigint[], %(his)s::bigint[]) found(relid, lo, hi)
 where p.table_id = %(table_id)s and c.table_id = p.table_id and p.relid = found.relid
     and p.state not in ('hot', 'dropped')
   and ((p.lo, p.hi) <> (found.lo, found.hi) or (p.state = 'tiered' and p.lo >= c.t))
   and not exists (select from thermocline.op_log o
                    where o.table_id = p.table_id and o.kind = 'tier' and o.phase not in ('published', 'abandoned'))

-- name: forget_vanished
delete from thermocline.partitions where table_id = %(table_id)s and state <> 'dropped'
    and relid <> all(%(relids)s::oid[])
returning name, state

-- name: size
select pg_relation_size(%(relid)s::oid)

-- name: lowest_beyond
select thermocline.axis(min(s.{tier_key})) from {spill} s where s.{tier_key} >= {bound}

-- name: clock_of_timestamptz
select thermocline.axis(clock_timestamp())

-- name: clock_of_timestamp
select thermocline.axis((clock_timestamp() at time zone 'UTC') - interval '12 hours')

-- name: clock_of_date
select thermocline.axis(((clock_timestamp() at time zone 'UTC') - interval '12 hours')::date)

-- name: set_state
update thermocline.partitions set state = %(state)s where table_id = %(table_id)s and relid = any(%(relids)s::oid[])

-- name: note_seal
update thermocline.partitions p set seal = g.oid, seal_file = pg_relation_filenode(p.relid)
  from thermocline.tables t, pg_inherits i, pg_trigger g
 where p.table_id = %(table_id)s and p.relid = %(relid)s and t.id = p.table_id and to_regclass(%(name)s) = p.relid
   and i.inhrelid = p.relid and i.inhparent = t.heap_oid and not i.inhdetachpending and g.tgrelid = p.relid
       and g.tgname = %(trigger)s

-- name: is_still_it
-- By its name another partition, with rows that nobody copied, may be meant by now; or the same one with other bounds.
select exists (select from thermocline.tables t join pg_inherits i on i.inhparent = t.heap_oid
                 join thermocline.partitions p on p.table_id = t.id and p.relid = i.inhrelid and p.state = 'tiered'
                where t.id = %(table_id)s and i.inhrelid = %(relid)s and to_regclass(%(name)s) = i.inhrelid
                  and thermocline.lower_bound(i.inhrelid, t.key_type) = %(lo)s)

-- name: set_tiered
update thermocline.partitions set state = 'tiered', tiered_xid = pg_current_xact_id(), moved_at = clock_timestamp()
 where table_id = %(table_id)s and relid = %(relid)s

-- name: set_moved_key
update thermocline.partitions set moved_key = %(key)s where table_id = %(table_id)s and relid = any(%(relids)s::oid[])

-- name: moves
-- How long ago a partition was tiered, in microseconds, and the newest row at that time. A worker of an earlier release
-- that publishes during an upgrade records no `moved_at`.
select relid, trunc(extract(epoch from clock_timestamp() - coalesce(moved_at, changed_at)) * 1000000)::bigint
           as microseconds, moved_key
  from thermocline.partitions where table_id = %(table_id)s and state = 'tiered'

-- name: newest_key
select thermocline.axis(max(h.{tier_key})) from {heap} h where {conditions}

-- name: set_rows
update thermocline.partitions set rows_in_lake = %(rows)s where table_id = %(table_id)s and relid = %(relid)s

-- name: blockers
select format('session %%s (%%s, %%s)', a.pid, a.usename, coalesce(a.state, 'active'))
  from pg_locks l join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'relation' and l.relation = any(%(relids)s::oid[]) and l.granted and l.pid <> pg_backend_pid()
   and a.xact_start is not null
 order by a.xact_start limit 1
