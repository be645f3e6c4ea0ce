-- name: try_lock
select pg_try_advisory_lock(746100, %(table_id)s::int)

-- name: unlock
select pg_advisory_unlock(746100, %(table_id)s::int)

-- name: claim
update thermocline.cutline set fence = fence + 1 where table_id = %(table_id)s returning t, s, seam_line, fence, r

-- name: cutline
select t, s, seam_line, fence, r from thermocline.cutline where table_id = %(table_id)s

-- name: raise_seam_line
update thermocline.cutline set seam_line = %(line)s
 where table_id = %(table_id)s and fence = %(fence)s and seam_line <= %(line)s

-- name: raise_seam_floor
update thermocline.cutline set seam_floor = %(floor)s
 where table_id = %(table_id)s and fence = %(fence)s and seam_floor <= %(floor)s

-- name: insert_intent
insert into thermocline.op_log (op_id, table_id, kind, phase, fence, t, base_snapshot, worker)
select %(op_id)s, c.table_id, %(kind)s, 'intent', c.fence, %(t)s, c.s, %(worker)s
  from thermocline.cutline c
 where c.table_id = %(table_id)s and c.fence = %(fence)s and c.s is not distinct from %(base)s for update

-- name: note_phase
update thermocline.op_log o
   set phase = %(phase)s, result_snapshot = coalesce(%(snapshot)s, o.result_snapshot),
       counters = o.counters || %(counters)s, changed_at = now()
  from thermocline.cutline c
 where o.op_id = %(op_id)s and c.table_id = o.table_id and c.fence = %(fence)s
   and o.phase not in ('published', 'abandoned')

-- name: unfinished
select op_id, kind, t, base_snapshot from thermocline.op_log
 where table_id = %(table_id)s and kind <> 'maintain' and phase not in ('published', 'abandoned') order by started_at

-- name: publish_cutline
update thermocline.cutline set t = %(t)s, s = %(s)s
 where table_id = %(table_id)s and fence = %(fence)s and t <= %(t)s and seam_line >= %(t)s
   and s is not distinct from %(base)s

-- name: hold_partitions
select thermocline.hold_partitions(%(table_id)s)

-- name: broken_seal
-- A partition on its way to the lake that left the heap or whose capture was interrupted, or a partition below the new
-- line without a capture trigger.
select format('%%I.%%I', p.schema_name, p.name) as partition
  from thermocline.partitions p join thermocline.tables t on t.id = p.table_id
 where p.table_id = %(table_id)s and p.state in ('sealing', 'tiering') and p.hi <= %(t)s
   and not exists (select from pg_inherits i join pg_trigger g on g.tgrelid = i.inhrelid
                    where i.inhrelid = p.relid and i.inhparent = t.heap_oid and not i.inhdetachpending
                      and g.oid = p.seal and g.tgenabled = 'A')
union all
select i.inhrelid::regclass::text
  from thermocline.tables t join thermocline.cutline c on c.table_id = t.id
  join pg_inherits i on i.inhparent = t.heap_oid
 where t.id = %(table_id)s and thermocline.lower_bound(i.inhrelid, t.key_type) >= c.t
   and thermocline.lower_bound(i.inhrelid, t.key_type) < %(t)s
   and not exists (select from pg_trigger g
                    where g.tgrelid = i.inhrelid and g.tgname = 'thermocline_capture' and g.tgenabled = 'A')
 limit 1

-- name: clear_stale
select thermocline.clear_stale(%(table_id)s, %(t)s)

-- name: publish_supersede
update thermocline.published set superseded_xid = pg_current_xact_id()
 where table_id = %(table_id)s and superseded_xid is null and snapshot_id is distinct from %(s)s

-- name: publish_snapshot
insert into thermocline.published (table_id, snapshot_id, op_id) values (%(table_id)s, %(s)s, %(op_id)s)

-- name: publish_partitions
update thermocline.partitions set state = 'tiered', tiered_xid = pg_current_xact_id(), moved_at = clock_timestamp()
 where table_id = %(table_id)s and state in ('sealing', 'tiering') and hi <= %(t)s
returning schema_name, name

-- name: publish_files
delete from thermocline.staged_files where op_id = %(op_id)s and path = any(%(paths)s)

-- name: publish_op
update thermocline.op_log
   set phase = 'published', result_snapshot = %(s)s, counters = counters || %(counters)s, message = %(message)s,
       changed_at = now(), published_xid = pg_current_xact_id()
 where op_id = %(op_id)s and phase not in ('published', 'abandoned')

-- name: abandon
update thermocline.op_log set phase = 'abandoned', message = %(message)s, changed_at = now()
 where op_id = %(op_id)s and phase not in ('published', 'abandoned')

-- name: publish_folding
update thermocline.cutline set folding_xid = pg_current_xact_id() where table_id = %(table_id)s

-- name: unpurged
select op_id, published_xid::text as published_xid from thermocline.op_log
 where table_id = %(table_id)s and kind = 'fold' and phase = 'published' and purged_at is null order by changed_at

-- name: note_purged
update thermocline.op_log o set purged_at = now()
  from thermocline.cutline c where o.op_id = %(op_id)s and c.table_id = o.table_id and c.fence = %(fence)s

-- name: staging_owners
select distinct table_id, lake_id from thermocline.staged_files order by table_id, lake_id

-- name: stray_files
select s.path from thermocline.staged_files s
  left join thermocline.op_log o on o.op_id = s.op_id
 where (o.op_id is null or o.phase in ('published', 'abandoned'))
   and s.table_id is not distinct from %(table_id)s and s.lake_id is not distinct from %(lake_id)s
   and s.at < now() - make_interval(secs => %(grace_seconds)s)
   and coalesce(o.changed_at, s.at) < now() - make_interval(secs => %(grace_seconds)s)
   and not exists (select from thermocline.paused p where p.table_id is null or p.table_id = s.table_id)
 order by s.at limit %(limit)s

-- name: forget_file
delete from thermocline.staged_files where path = %(path)s

-- name: recent_ops
select op_id, kind, phase, base_snapshot, result_snapshot, counters, message, worker, started_at, changed_at
  from thermocline.op_log where table_id = %(table_id)s order by started_at desc limit %(limit)s
