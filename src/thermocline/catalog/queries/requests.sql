-- name: beat
insert into thermocline.workers (name, pid, host, backend_pid) values (%(name)s, %(pid)s, %(host)s, pg_backend_pid())
on conflict (name) do update set pid = excluded.pid, host = excluded.host, backend_pid = excluded.backend_pid,
    seen_at = now()

-- name: leave
delete from thermocline.workers where name = %(name)s

-- name: sweep_workers
delete from thermocline.workers w where seen_at < now() - interval '1 day'
    and not exists (select 1 from pg_stat_activity a where a.pid = w.backend_pid)

-- name: live_worker
select w.name from thermocline.workers w join pg_stat_activity a on a.pid = w.backend_pid
 where a.application_name = 'thermocline worker' and a.datname = current_database()
 order by w.seen_at desc limit 1

-- name: is_worker_alive
select exists (select from thermocline.workers w join pg_stat_activity a on a.pid = w.backend_pid
                where w.pid = %(pid)s and w.host = %(host)s and a.application_name = 'thermocline worker')

-- name: file
insert into thermocline.requests (table_id, verb) values (%(table_id)s, %(verb)s)
on conflict (table_id, verb) where state in ('pending', 'running') do update set verb = excluded.verb
returning id

-- name: take
update thermocline.requests set state = 'running', worker = %(worker)s
 where id = (select id from thermocline.requests where state = 'pending' order by id limit 1 for update skip locked)
returning id, table_id, verb

-- name: take_orphaned
update thermocline.requests r set state = 'pending', worker = null
 where r.state = 'running'
   and not exists (select 1 from thermocline.workers w join pg_stat_activity a on a.pid = w.backend_pid
                    where w.name = r.worker and a.application_name = 'thermocline worker')

-- name: progress
update thermocline.requests set progress = %(progress)s, measured = %(measured)s where id = %(id)s

-- name: finish
update thermocline.requests set state = %(state)s, result = %(result)s, finished_at = now() where id = %(id)s

-- name: state
select state, progress, measured, result from thermocline.requests where id = %(id)s

-- name: prune
delete from thermocline.requests where finished_at < now() - interval '7 days'
