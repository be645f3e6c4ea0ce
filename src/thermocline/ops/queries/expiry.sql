-- name: rows_below
select coalesce(sum(rows_in_lake), 0) from thermocline.partitions
 where table_id = %(table_id)s and state in ('tiered', 'dropped') and hi <= %(line)s and lo >= %(current)s
