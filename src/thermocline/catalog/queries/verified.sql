-- name: due
select t.id from thermocline.tables t
  left join thermocline.verified v on v.table_id = t.id
 where not exists (select from thermocline.paused p where p.table_id is null or p.table_id = t.id)
 group by t.id, t.created_at
having coalesce(max(v.at), t.created_at) <= now() - make_interval(secs => %(interval_seconds)s)
 order by coalesce(max(v.at), t.created_at)

-- name: checked
select lo, hi, at from thermocline.verified where table_id = %(table_id)s

-- name: note
insert into thermocline.verified (table_id, lo, hi, range, drift_rows, problem)
select t.id, %(lo)s, %(hi)s, %(range)s, %(drift_rows)s, %(problem)s from thermocline.tables t where t.id = %(table_id)s
on conflict (table_id, lo) do update set hi = excluded.hi, range = excluded.range, at = now(),
    drift_rows = excluded.drift_rows, problem = excluded.problem

-- name: forget
delete from thermocline.verified where table_id = %(table_id)s
   and not (lo, hi) in (select * from unnest(%(los)s::bigint[], %(his)s::bigint[]))

-- name: drift
select t.schema_name, t.table_name, coalesce(sum(v.drift_rows), 0)::bigint as drift_rows,
       count(v.problem) as failed_ranges, extract(epoch from max(v.at)) as last_at_seconds
  from thermocline.tables t join thermocline.verified v on v.table_id = t.id group by t.id order by t.id
