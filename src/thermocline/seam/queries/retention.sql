-- name: bounds
select lo, hi, state <> 'dropped' from thermocline.partitions where table_id = %(table_id)s

-- name: line
select line from thermocline.retention where table_id = %(table_id)s

-- name: raise_retention_line
update thermocline.retention set line = %(line)s where table_id = %(table_id)s and line < %(line)s

-- name: publish_line
update thermocline.cutline set r = %(line)s, epoch = epoch + 1, folding_xid = pg_current_xact_id()
 where table_id = %(table_id)s and r is distinct from %(line)s

-- name: purge_spill
delete from {spill} s where s.{tier_key} < {line}

-- name: purge_delta
delete from {delta} d where d.{tier_key} < {line}
