-- name: following
select thermocline.shape_of(t.heap_oid) is distinct from t.shape or thermocline.changed_type(t.id) is not null
           as heap_changed,
       t.lake_behind
  from thermocline.tables t where t.id = %(table_id)s

-- name: note_seam
select thermocline.note_seam(%(table_id)s)

-- name: quiet
select set_config('thermocline.following', 'on', true)

-- name: follow
select thermocline.follow_schema(%(table_id)s)

-- name: missing
select field_id, missing from thermocline.columns where table_id = %(table_id)s and missing is not null

-- name: renumber_new_fields
with numbered as (
    select c.position, (%(first_free)s + row_number() over (order by c.position) - 1)::integer as number
      from thermocline.columns c where c.table_id = %(table_id)s and c.absent),
renumbered as (
    update thermocline.columns c set field_id = n.number from numbered n where c.table_id = %(table_id)s
        and c.position = n.position)
update thermocline.tables t set last_field_id = (select max(n.number) from numbered n)
 where t.id = %(table_id)s and exists (select from numbered)

-- name: finish
select thermocline.finish_following(%(table_id)s)

-- name: lake_behind
update thermocline.tables set lake_behind = true where id = %(table_id)s
