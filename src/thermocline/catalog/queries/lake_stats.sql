-- name: newest
select id, metadata_location, at, checked_at, stats, warnings, policy, problem from thermocline.lake_stats
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
 order by at desc, id desc limit 1

-- name: newest_of_all
select coalesce(m.schema_name || '.' || m.table_name, m.namespace || '.' || m.name) as "table", s.stats,
       jsonb_array_length(s.warnings) as warnings
  from thermocline.maintained m
  cross join lateral (select stats, warnings from thermocline.lake_stats l
                       where l.table_id is not distinct from m.table_id and l.lake_id is not distinct from m.lake_id
                       order by l.at desc, l.id desc limit 1) s
 order by 1

-- name: insert
insert into thermocline.lake_stats (table_id, lake_id, metadata_location, stats, warnings, policy, problem)
values (%(table_id)s, %(lake_id)s, %(metadata_location)s, %(stats)s, %(warnings)s, %(policy)s, %(problem)s)

-- name: refresh
update thermocline.lake_stats set checked_at = now(), stats = %(stats)s, warnings = %(warnings)s, policy = %(policy)s,
    problem = %(problem)s
 where id = %(id)s

-- name: prune
delete from thermocline.lake_stats o
 where o.table_id is not distinct from %(table_id)s and o.lake_id is not distinct from %(lake_id)s
   and o.at < now() - interval '7 days'
   and exists (select from thermocline.lake_stats n
                where n.table_id is not distinct from o.table_id and n.lake_id is not distinct from o.lake_id
                  and n.at > o.at)

-- name: trend
select coalesce(sum((stats ->> 'small_files_created')::bigint), 0)::bigint as created,
       coalesce(sum((stats ->> 'small_files_removed')::bigint), 0)::bigint as removed,
       greatest(extract(epoch from now() - min(at)), 3600)::float8 as seconds
  from thermocline.lake_stats
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
   and at > now() - interval '24 hours'

-- name: orphan_estimate
-- What the journal knows to be waste: no listing is needed for it.
select (select count(*) from thermocline.staged_files s join thermocline.op_log o on o.op_id = s.op_id
         where o.phase in ('published', 'abandoned')
           and s.table_id is not distinct from %(table_id)s and s.lake_id is not distinct from %(lake_id)s)
     + (select count(*) from thermocline.doomed_files d
         where d.table_id is not distinct from %(table_id)s and d.lake_id is not distinct from %(lake_id)s)

-- name: published
select s from thermocline.cutline where table_id = %(table_id)s
