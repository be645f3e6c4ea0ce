-- name: reads_all_statistics
select r.rolsuper or pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') from pg_roles r
 where r.rolname = current_user

-- name: note_standbys
select thermocline.note_standbys(%(standby_grace_seconds)s)

-- name: protected
-- A superseded snapshot is needed while a Postgres snapshot is older than the transaction that superseded it.
with readers as (select regexp_replace(what, '^session', 'reader') as what, oldest from thermocline.live_snapshots),
standbys as (select what from thermocline.silent_standbys limit 1)
select p.snapshot_id,
       case when p.superseded_xid is null then 'published' else coalesce(r.what, s.what) end as holder
  from thermocline.published p
  left join lateral (select what from readers where age(oldest) >= age(p.superseded_xid::xid)
                      order by age(oldest) desc limit 1) r on true
  left join thermocline.published next on next.table_id = p.table_id and next.published_xid = p.superseded_xid
  left join standbys s on next.at > now() - make_interval(secs => %(standby_grace_seconds)s)
 where p.table_id = %(table_id)s and (p.superseded_xid is null or r.what is not null or s.what is not null)
union all
select c.s, 'published' from thermocline.cutline c where c.table_id = %(table_id)s and c.s is not null

-- name: of_ops
select unnest(array[base_snapshot, result_snapshot]) as snapshot_id,
       format('operation %%s (%%s)', op_id, kind) as holder
  from thermocline.op_log
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
   and phase not in ('published', 'abandoned') and op_id is distinct from %(pass_id)s::uuid

-- name: staged
select path from thermocline.staged_files

-- name: doom
insert into thermocline.doomed_files (path, table_id, lake_id, size_bytes)
select path, %(table_id)s, %(lake_id)s, size_bytes
  from unnest(%(paths)s::text[], %(sizes)s::bigint[]) f(path, size_bytes)
on conflict (path) do update set at = now()

-- name: doomed
select path, size_bytes from thermocline.doomed_files
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s order by path

-- name: spare
delete from thermocline.doomed_files where path = any(%(paths)s)

-- name: forget_published
delete from thermocline.published
 where table_id = %(table_id)s and snapshot_id = any(%(snapshots)s) and superseded_xid is not null

-- name: forget_published_but
delete from thermocline.published
 where table_id = %(table_id)s and snapshot_id <> all(%(snapshots)s) and superseded_xid is not null
