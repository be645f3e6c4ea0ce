-- name: seam
create or replace view {seam} as
select {heap_columns}
  from {heap} h
 where {above_floor}h.{tier_key} >= {cut}
union all
select {lake_columns}
  from {lake} l
 where l.{tier_key} < {line}
   and l._snapshot = (select c.s from thermocline.cutline c where c.table_id = {table_id})
   -- `or (select false)` changes nothing; without it the planner, who cannot see through these conditions, believes in
   -- a sixth of the rows.
   and ((l.{tier_key} < {cut}
       and not exists (select 1 from {delta} d where {lake_is_corrected} and d._folded is null offset 0))
        or (select false))
union all
select {delta_columns}
  from {delta} d
 where d._op = 0
   and d._folded is null
   and d.{tier_key} < {line}
   and d.{tier_key} < {cut}
