-- name: try_lock_lake
select pg_try_advisory_lock(746101, %(lake_id)s::int)

-- name: unlock_lake
select pg_advisory_unlock(746101, %(lake_id)s::int)

-- name: begin_lake_op
insert into thermocline.op_log (op_id, lake_id, kind, phase, base_snapshot, worker, pass_id)
values (%(op_id)s, %(lake_id)s, %(kind)s, 'intent', %(base)s, %(worker)s, %(pass_id)s)

-- name: unfinished_lake_ops
select op_id from thermocline.op_log
 where lake_id = %(lake_id)s and kind <> 'maintain' and phase not in ('published', 'abandoned') order by started_at

-- name: finish_lake_op
update thermocline.op_log
   set phase = %(phase)s, result_snapshot = %(snapshot)s, counters = counters || %(counters)s, message = %(message)s,
       changed_at = now(), ended_at = now()
 where op_id = %(op_id)s and phase not in ('published', 'abandoned')

-- name: take_over
update thermocline.staged_files set op_id = %(op_id)s where op_id = %(pass_id)s and path = any(%(paths)s)

-- name: unstage
delete from thermocline.staged_files where op_id = %(op_id)s and path = any(%(paths)s)
