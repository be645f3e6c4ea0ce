-- name: silence_triggers
select set_config('session_replication_role', 'replica', true) from pg_roles r where r.rolname = current_user
    and r.rolsuper

-- name: restore_triggers
select set_config('session_replication_role', 'origin', true) from pg_roles r where r.rolname = current_user
    and r.rolsuper

-- name: fire_deferred
set constraints all immediate

-- name: copy_lacking_rows
create temporary table thermocline_lacking on commit drop as
select s.* from {filled} s where not exists (select 1 from {place} h where {h_is_s})

-- name: count
select count(*) from only {place}

-- name: not_arrived
select count(*) from {held} d
 where {condition} and not exists (select 1 from {place} h where {h_is_d}
     and record_image_eq(row({h_writable}), row({d_writable})))

-- name: still_there
select count(*) from {held} d where {condition} and exists (select 1 from {place} h where {h_is_d})
