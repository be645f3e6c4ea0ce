-- name: referring
select c.conrelid::regclass::text as relation, c.conname from pg_constraint c
 where c.confrelid = %(oid)s and c.contype = 'f' and c.conparentid = 0
     and c.conrelid <> %(oid)s order by c.conname limit 1

-- name: count
select (select count(*) from {heap}) as heap_rows,
       (select count(*) from {delta} d where d._folded is null) as corrections

-- name: lock_heap
lock table {heap} in share row exclusive mode

-- name: raise_epoch
update thermocline.cutline set epoch = epoch + 1 where table_id = %(table_id)s

-- name: move_line_row
-- Writers of rows that only the lake holds take a share lock on it: those with an older snapshot are told to run again.
update thermocline.retention set line = line where table_id = %(table_id)s

-- name: delete_heap
delete from {heap}

-- name: delete_delta
delete from {delta}

-- name: forget_rows
update thermocline.partitions set rows_in_lake = 0 where table_id = %(table_id)s and rows_in_lake is not null
