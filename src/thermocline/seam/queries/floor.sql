-- name: due
select c.t, o.published_xid::text as published_xid,
       o.changed_at > now() - make_interval(secs => %(grace_seconds)s)
           and exists (select from thermocline.silent_standbys) as waits_for_standby
  from thermocline.cutline c
  cross join lateral (select l.published_xid, l.changed_at from thermocline.op_log l
                       where l.table_id = c.table_id and l.kind = 'tier' and l.phase = 'published' and l.t = c.t
                       order by l.changed_at desc limit 1) o
 where c.table_id = %(table_id)s and c.seam_floor < c.t and o.published_xid is not null

-- name: lock_seam
select thermocline.lock_seam(%(table_id)s)

-- name: apply
select thermocline.apply_view(c.table_id, c.seam_line, floor => %(floor)s) from thermocline.cutline c
    where c.table_id = %(table_id)s

-- name: rebuild
select thermocline.apply_view(c.table_id, c.seam_line)
  from (select k.table_id, k.seam_line from thermocline.cutline k where k.table_id = %(table_id)s for share) c
