-- name: insert
insert into thermocline.quarantined_files (path, kept_at, table_id, lake_id, size_bytes, until)
values (%(path)s, %(kept_at)s, %(table_id)s, %(lake_id)s, %(size_bytes)s, %(until)s)

-- name: moved
update thermocline.quarantined_files set is_moved = true where kept_at = %(kept_at)s

-- name: want
update thermocline.quarantined_files set is_wanted = true
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s and not is_wanted

-- name: read
select path, kept_at, size_bytes, until from thermocline.quarantined_files
 where table_id is not distinct from %(table_id)s and lake_id is not distinct from %(lake_id)s
   and case %(which)s when 'unmoved' then not is_moved and not is_wanted
                      when 'over' then is_moved and not is_wanted and until <= %(now)s
                      when 'wanted' then is_wanted
                      else true end
 order by at desc, kept_at

-- name: lock
select from thermocline.quarantined_files where kept_at = %(kept_at)s and is_wanted = %(wanted)s for update

-- name: release
delete from thermocline.quarantined_files where kept_at = %(kept_at)s
