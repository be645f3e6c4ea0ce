-- name: bounds
select lo, hi, state <> 'dropped' from thermocline.partitions where table_id = %(table_id)s

-- name: line
select line from thermocline.retention where table_id = %(table_id)s

-- name: hold_retention
-- The share lock delays `alter` and `stop` until the line is raised.
select lake_retention is not distinct from %(planned)s as is_planned,
       started_at is not null or not %(by_itself)s as may_expire
  from thermocline.tables where id = %(table_id)s for share

-- name: checks_line
select exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                where n.nspname = 'thermocline_fn' and p.proname = %(function)s
                  and position('thermocline.retention' in p.prosrc) > 0)

-- name: apply_functions
select thermocline.apply_functions(%(table_id)s)

-- name: line_of_op
select coalesce((o.counters ->> 'r')::bigint, r.line)
  from thermocline.retention r left join thermocline.op_log o on o.op_id = %(op_id)s
 where r.table_id = %(table_id)s

-- name: raise_retention_line
update thermocline.retention set line = %(line)s where table_id = %(table_id)s and line < %(line)s

-- name: publish_line
update thermocline.cutline set r = %(line)s, epoch = epoch + 1, folding_xid = pg_current_xact_id()
 where table_id = %(table_id)s and r is distinct from %(line)s

-- name: purge_spill
delete from {spill} s where s.{tier_key} < {line}

-- name: purge_delta
delete from {delta} d where d.{tier_key} < {line}
