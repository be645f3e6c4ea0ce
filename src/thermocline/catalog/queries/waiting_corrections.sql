-- name: note
-- While a correction that waited at `since` still waits, `since` stays; else it is now, of what waits now.
insert into thermocline.waiting_corrections as w (table_id, rows, since, last_version, noted_at)
select t.id, %(rows)s::bigint, case when %(rows)s::bigint > 0 then now() end, %(last_version)s::bigint, now()
  from thermocline.tables t where t.id = %(table_id)s
on conflict (table_id) do update
   set rows = excluded.rows, noted_at = excluded.noted_at,
       since = case when excluded.rows > 0 and %(first_version)s::bigint <= w.last_version then w.since
                    else excluded.since end,
       last_version = case when excluded.rows > 0 and %(first_version)s::bigint <= w.last_version then w.last_version
                           else excluded.last_version end
returning extract(epoch from now() - since)::float8
