-- name: accepted
select accepted_t as t, accepted_r as r from thermocline.tables where id = %(table_id)s

-- name: accept
update thermocline.tables set accepted_t = greatest(accepted_t, %(t)s), accepted_r = greatest(accepted_r, %(r)s)
 where id = %(table_id)s
