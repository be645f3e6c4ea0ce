-- name: pause
insert into thermocline.paused (table_id) values (%(table_id)s) on conflict do nothing

-- name: resume
delete from thermocline.paused where table_id is not distinct from %(table_id)s

-- name: resume_all
delete from thermocline.paused

-- name: paused_since
select min(at) as since from thermocline.paused where table_id is null or table_id = %(table_id)s

-- name: paused
select case when t.id is null then 'every table' else concat(t.schema_name, '.', t.table_name) end as paused
  from thermocline.paused p left join thermocline.tables t on t.id = p.table_id order by p.table_id nulls first

-- name: is_busy
select exists (select 1 from pg_locks l join pg_database d on d.oid = l.database
                where d.datname = current_database() and l.locktype = 'advisory' and l.classid = 746100
                  and l.objid = %(table_id)s::oid and l.objsubid = 2 and l.granted)

-- name: note_cycle
insert into thermocline.cycles (table_id, sentence, problem_code, deferred, next_step, failed, failing_since)
select t.id, %(sentence)s, %(problem_code)s::text, %(deferred)s, %(next_step)s,
       (%(problem_code)s::text is not null)::int, case when %(problem_code)s::text is not null then now() end
  from thermocline.tables t where t.id = %(table_id)s
on conflict (table_id) do update set at = now(), sentence = excluded.sentence, problem_code = excluded.problem_code,
    deferred = excluded.deferred, next_step = coalesce(excluded.next_step, cycles.next_step),
    failed = cycles.failed + excluded.failed, failing_since = coalesce(cycles.failing_since, excluded.failing_since)

-- name: note_success
update thermocline.cycles set finished = finished + 1, failing_since = null where table_id = %(table_id)s

-- name: cycle
select at, sentence, problem_code, deferred, next_step from thermocline.cycles where table_id = %(table_id)s
