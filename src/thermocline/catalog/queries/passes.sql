-- name: try_lock
select pg_try_advisory_lock(746200 + (%(lake_id)s::bigint is not null)::int,
                            coalesce(%(table_id)s::bigint, %(lake_id)s::bigint)::int)

-- name: unlock
select pg_advisory_unlock(746200 + (%(lake_id)s::bigint is not null)::int,
                          coalesce(%(table_id)s::bigint, %(lake_id)s::bigint)::int)

-- name: try_lock_shared
select pg_try_advisory_lock_shared(746200 + (%(lake_id)s::bigint is not null)::int,
                                   coalesce(%(table_id)s::bigint, %(lake_id)s::bigint)::int)

-- name: unlock_shared
select pg_advisory_unlock_shared(746200 + (%(lake_id)s::bigint is not null)::int,
                                 coalesce(%(table_id)s::bigint, %(lake_id)s::bigint)::int)

-- name: try_lock_partition
select pg_try_advisory_lock(746220, %(place)s::int)

-- name: unlock_partition
select pg_advisory_unlock(746220, %(place)s::int)

-- name: begin
insert into thermocline.op_log (op_id, table_id, lake_id, kind, phase, forced, may_run_concurrently, policy,
                                base_snapshot, worker)
values (%(op_id)s, %(table_id)s, %(lake_id)s, 'maintain', 'intent', %(forced)s, %(may_run_concurrently)s, %(policy)s,
        %(base)s, %(worker)s)

-- name: close_dead_of
update thermocline.op_log
   set phase = 'abandoned', error = 'the pass died', message = 'the pass died; its files are the janitor''s',
       changed_at = now(), ended_at = now()
 where kind = 'maintain' and phase not in ('published', 'abandoned')
   and table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
returning op_id

-- name: close_dead
-- A pass takes its lock before it writes its row, so a row that is seen without a lock is of a dead pass.
update thermocline.op_log o
   set phase = 'abandoned', error = 'the pass died', message = 'the pass died; its files are the janitor''s',
       changed_at = now(), ended_at = now()
 where o.kind = 'maintain' and o.phase not in ('published', 'abandoned')
   and o.started_at < now() - interval '10 seconds'
   and not exists (
       select from pg_locks l
        where l.locktype = 'advisory'
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.classid = 746200 + (o.lake_id is not null)::int and l.objid = coalesce(o.table_id, o.lake_id)
          and l.objsubid = 2)
returning op_id

-- name: note_bounds
update thermocline.op_log set bounds = %(bounds)s, changed_at = now() where op_id = %(op_id)s

-- name: note_progress
update thermocline.op_log set progress = %(progress)s, changed_at = now() where op_id = %(op_id)s

-- name: finish
update thermocline.op_log
   set phase = %(phase)s, outcomes = %(outcomes)s, counters = %(counters)s, message = %(message)s, error = %(error)s,
       progress = null, changed_at = now(), ended_at = now()
 where op_id = %(op_id)s and phase not in ('published', 'abandoned')

-- name: last_done
select max(o.started_at) as started_at from thermocline.op_log o
  cross join lateral jsonb_to_recordset(o.outcomes) as r(operation text, status text)
 where o.kind = 'maintain' and o.table_id is not distinct from %(table_id)s
   and o.lake_id is not distinct from %(lake_id)s
   and r.operation = %(operation)s and r.status = 'done'

-- name: last_passes
select op_id::text as pass_id, phase, forced, message as sentence, error, counters, progress, started_at, ended_at
  from thermocline.op_log
 where kind = 'maintain' and table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
 order by started_at desc limit %(limit)s

-- name: status
select operation, status, at, message from thermocline.maintenance_status
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
 order by place

-- name: prune
-- What happened last on each table stays, whatever its age.
delete from thermocline.op_log o
 where o.table_id is not distinct from %(table_id)s and o.lake_id is not distinct from %(lake_id)s
   and (o.kind = 'maintain' or o.pass_id is not null) and o.phase in ('published', 'abandoned')
   and o.started_at < now() - make_interval(days => %(days)s)
   and exists (select from thermocline.op_log n
                where n.kind = 'maintain' and n.table_id is not distinct from o.table_id
                  and n.lake_id is not distinct from o.lake_id
                  and n.started_at > o.started_at)
