-- name: seam
create or replace view {seam} as
select {heap_columns}
  from {heap} h
 where {above_floor}h.{tier_key} >= {cut}
   -- Without columns, so it is tested once, before any row is read and before any condition of the reader's.
   and {no_row_security}
union all
select {lake_columns}
  from {lake_range} l
  cross join (select false as never offset 0) n
 where l.{tier_key} < {line}
   and l._snapshot = (select c.s from thermocline.cutline c where c.table_id = {table_id})
   -- The last two terms are never true, and are there for the planner: it expects `tableoid = 0` to hold for every row,
   -- so the estimate stays that of the foreign table, and `n.never` makes this a condition of the join, whose cost
   -- counts for rows that were fetched and not for all rows of the lake.
   and ((l.{tier_key} < {cut}
       and (not exists (select 1 from {delta} d where {lake_may_be_corrected} and d._folded is null){probe_delta}))
        or l.tableoid = 0 or n.never)
   and {no_row_security}
union all
select {delta_columns}
  from {delta} d
 where d._op = 0
   and d._folded is null
   and d.{tier_key} < {line}
   and d.{tier_key} < {cut}
   and {no_row_security}

-- name: probe_delta
-- Key columns that cannot be hashed are compared only for rows whose other columns match; the tier key always can.
 or not exists (select 1 from {delta} d where {lake_is_corrected} and d._folded is null offset 0)

-- name: no_row_security
-- Postgres answers for the reader, not for the view's owner, and by the table as it is now: a snapshot from before the
-- change does not hide it.
case when row_security_active({heap_literal}::regclass) then thermocline.refuse_row_security({heap_literal}::regclass)
     else true end

-- name: as_of
-- Thermocline {version}. The rows of the lake version that was published at a moment, for who may read all of the
-- table.
declare
    version record := thermocline.version_at({heap_oid}::pg_catalog.oid::pg_catalog.regclass, moment);
    columns text;
begin
    -- The lake's text forms become the table's own types again, as in the seam.
    select string_agg(format('l.%1$I::%2$s as %1$I', a.attname, format_type(a.atttypid, a.atttypmod)), ', '
                      order by a.attnum)
      into columns
      from pg_attribute a
      join pg_attribute f on f.attrelid = version.lake::regclass and f.attname = a.attname and f.attnum > 0
       and not f.attisdropped
     where a.attrelid = version.heap and a.attnum > 0 and not a.attisdropped;
    return query execute concat('select to_jsonb(r) from (select ', columns, ' from ', version.lake,
                                ' l where l._snapshot = $1) r')
        using version.snapshot_id;
end
