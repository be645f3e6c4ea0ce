-- name: file_table
insert into thermocline.maintenance_requests (table_id, request) values (%(table_id)s, %(request)s)
on conflict (table_id) where state = 'pending' do update set request = excluded.request, by_role = session_user,
    refreshed_at = now()
returning id

-- name: file_lake
insert into thermocline.maintenance_requests (lake_id, request) values (%(lake_id)s, %(request)s)
on conflict (lake_id) where state = 'pending' do update set request = excluded.request, by_role = session_user,
    refreshed_at = now()
returning id

-- name: take
-- A table on which a pass runs keeps its request until that pass is over; compactions of named partitions
-- run concurrently.
update thermocline.maintenance_requests set state = 'running', worker = %(worker)s
 where id = (select r.id from thermocline.maintenance_requests r
              where r.state = 'pending'
                and not exists (select from thermocline.op_log o
                                 where o.kind = 'maintain' and o.phase not in ('published', 'abandoned')
                                   and not (o.may_run_concurrently
                                            and coalesce((r.request ->> 'may_run_concurrently')::boolean, false))
                                   and o.table_id is not distinct from r.table_id
                                   and o.lake_id is not distinct from r.lake_id)
              order by r.refreshed_at, r.id limit 1 for update skip locked)
returning id, table_id, lake_id, request

-- name: give_back
-- Somebody may have filed a newer one meanwhile: then this one is theirs.
update thermocline.maintenance_requests r set state = 'pending', worker = null
 where r.id = %(id)s
   and not exists (select from thermocline.maintenance_requests n where n.state = 'pending' and n.id <> r.id
                    and n.table_id is not distinct from r.table_id and n.lake_id is not distinct from r.lake_id)

-- name: take_orphaned
with dead as (
    select r.id, exists (select from thermocline.maintenance_requests n where n.state = 'pending'
                          and n.table_id is not distinct from r.table_id
                          and n.lake_id is not distinct from r.lake_id) as is_replaced
      from thermocline.maintenance_requests r
     where r.state = 'running'
       and not exists (select 1 from thermocline.workers w join pg_stat_activity a on a.pid = w.backend_pid
                        where w.name = r.worker and a.application_name = 'thermocline worker'))
update thermocline.maintenance_requests r
   set state = case when d.is_replaced then 'failed' else 'pending' end, worker = null,
       result = case when d.is_replaced
                     then '{"message": "the worker died; a newer request took its place"}'::jsonb end,
       finished_at = case when d.is_replaced then now() end
  from dead d where d.id = r.id

-- name: progress
update thermocline.maintenance_requests set progress = %(progress)s, measured = %(measured)s where id = %(id)s

-- name: finish
update thermocline.maintenance_requests set state = %(state)s, result = %(result)s, finished_at = now()
 where id = %(id)s

-- name: look
select state, progress, measured, result from thermocline.maintenance_requests where id = %(id)s

-- name: prune
delete from thermocline.maintenance_requests where finished_at < now() - interval '7 days'

-- name: schedule_new_tables
insert into thermocline.maintenance_schedule (table_id, lake_id, next_at)
select m.table_id, m.lake_id, now() + make_interval(secs => %(interval_seconds)s * random())
  from thermocline.maintained m
 where not exists (select from thermocline.maintenance_schedule s
                    where s.table_id is not distinct from m.table_id and s.lake_id is not distinct from m.lake_id)
on conflict do nothing

-- name: due
select s.table_id, s.lake_id from thermocline.maintenance_schedule s
 where s.next_at <= now()
   and exists (select from thermocline.maintained m
                where m.table_id is not distinct from s.table_id and m.lake_id is not distinct from s.lake_id)
 order by s.next_at

-- name: claim
update thermocline.maintenance_schedule
   set next_at = now() + make_interval(secs => %(interval_seconds)s * (0.9 + 0.2 * random()))
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s and next_at <= now()

-- name: note_state
update thermocline.maintenance_schedule set state = %(state)s, next_at = coalesce(%(next_at)s, next_at)
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s

-- name: hasten
update thermocline.maintenance_schedule set next_at = now()
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s and next_at > now()

-- name: read_schedule
select next_at, state from thermocline.maintenance_schedule
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
