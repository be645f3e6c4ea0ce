-- name: read
select root, after_folder as after, listed from thermocline.sweeps
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
   and at > now() - interval '1 day'

-- name: candidates
select path, size_bytes, modified from thermocline.sweep_candidates
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s

-- name: forget
delete from thermocline.sweeps
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s

-- name: forget_candidates
delete from thermocline.sweep_candidates
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s

-- name: save
insert into thermocline.sweeps (table_id, lake_id, root, after_folder, listed)
values (%(table_id)s, %(lake_id)s, %(root)s, %(after)s, %(listed)s)

-- name: add_candidates
copy thermocline.sweep_candidates (path, table_id, lake_id, size_bytes, modified) from stdin
