-- name: touch
update thermocline.workers set seen_at = now() where name = %(name)s

-- name: start_cycle
update thermocline.workers set seen_at = now(), cycle_started_at = clock_timestamp() where name = %(name)s

-- name: finish_cycle
update thermocline.workers set seen_at = now(), cycle_finished_at = clock_timestamp(), cycle_started_at = null,
       cycle_seconds = extract(epoch from clock_timestamp() - cycle_started_at)
 where name = %(name)s

-- name: workers
-- A file is staged before it is written, so a long copy that goes on stages one now and then.
select w.name, w.host, w.pid, w.started_at, w.seen_at, w.cycle_started_at, w.cycle_finished_at, w.cycle_seconds,
       (select max(greatest(o.changed_at, (select max(f.at) from thermocline.staged_files f where f.op_id = o.op_id)))
          from thermocline.op_log o
         where o.worker = w.name and o.kind in ('tier', 'fold', 'retain') and o.phase not in ('published', 'abandoned'))
           as progress_at
  from thermocline.workers w order by w.seen_at desc
