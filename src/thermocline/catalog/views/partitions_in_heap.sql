-- The one answer to the question whether the heap holds a partition's range whole: only then a row that it lacks was
-- deleted, and the heap may be taken for the truth of the range. The partition is the very one that was copied; it was
-- never out of the table and always captured since it was sealed (its capture trigger is the one that sealed it); and
-- it was not emptied: TRUNCATE leaves history behind unless the mode keeps the heap complete. Nor can a crash empty
-- it: of an unlogged partition recovery leaves the file's number, the trigger and no row.
create or replace view thermocline.partitions_in_heap as
select p.table_id, p.schema_name, p.name, p.relid, p.lo, p.hi, p.state, p.rows_in_lake, p.tiered_xid, p.seal,
       p.seal_file, p.filled_xid, p.changed_at, p.capture_lost_at, i.inhrelid is not null as is_attached,
       coalesce(p.state = 'tiered' and p.rows_in_lake is not null
                and (p.filled_xid = pg_current_xact_id_if_assigned()
                     or (i.inhrelid is not null
                         and exists (select from pg_trigger g where g.oid = p.seal and g.tgrelid = p.relid)
                         and exists (select from pg_class c where c.oid = p.relid and c.relpersistence = 'p')
                         and (m.heap_is_complete or pg_relation_filenode(p.relid) = p.seal_file))), false) as is_whole
  from thermocline.partitions p
  join thermocline.tables t on t.id = p.table_id
  join thermocline.modes m on m.name = t.mode
  left join pg_inherits i on i.inhrelid = p.relid and i.inhparent = t.heap_oid and not i.inhdetachpending;
revoke all on thermocline.partitions_in_heap from public;
comment on view thermocline.partitions_in_heap is
    'Every partition with whether it is the heap''s now, and whether the heap holds its range whole, unbroken since'
    ' its seal.';
