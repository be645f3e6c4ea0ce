-- name: lock_settings
select from thermocline.tables where id = %(table_id)s for update

-- name: apply_functions
select thermocline.apply_functions(%(table_id)s)
