-- name: reads_all_statistics
select r.rolsuper or pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') from pg_roles r
    where r.rolname = current_user

-- name: tiered_xid
select tiered_xid::text from thermocline.partitions where table_id = %(table_id)s and relid = %(relid)s

-- name: note_standbys
select thermocline.note_standbys(%(grace_seconds)s)

-- name: older_readers
select r.what from thermocline.live_snapshots r
 where age(r.oldest) >= age(%(xid)s::xid8::xid)
 order by age(r.oldest) desc limit 1

-- name: standby_without_feedback
select r.what from thermocline.silent_standbys r, thermocline.partitions p
 where p.table_id = %(table_id)s and p.relid = %(relid)s
     and p.changed_at > now() - make_interval(secs => %(grace_seconds)s)
 limit 1
