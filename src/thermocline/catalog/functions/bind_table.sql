-- Binds a table's object numbers anew, by name. What a transaction of the other cluster wrote is as old as this
-- transaction: no snapshot taken before it is alive here, so corrections already folded are not needed for anybody's
-- conflict.
create or replace function thermocline.bind_table(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    heap_now oid;
    held thermocline.partitions[];
begin
    update thermocline.tables x set heap_oid = to_regclass(format('%I.%I', x.schema_name, x.table_name))
     where x.id = of_table returning * into strict t;
    heap_now := t.heap_oid;
    update thermocline.columns c set attnum = a.attnum
      from pg_attribute a where c.table_id = of_table and a.attrelid = heap_now and a.attname = c.name
       and not a.attisdropped;
    -- All numbers at once: one partition's new number may be another one's old number.
    with gone as (delete from thermocline.partitions p where p.table_id = of_table and p.state <> 'dropped' returning p)
    select array_agg(g.p) into held from gone g;
    insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state, rows_in_lake, tiered_xid,
                                        changed_at, capture_lost_at, moved_at, moved_key)
    select p.table_id, p.schema_name, p.name, i.inhrelid, p.lo, p.hi, p.state, p.rows_in_lake, p.tiered_xid,
           p.changed_at, p.capture_lost_at, p.moved_at, p.moved_key
      from unnest(held) p join pg_inherits i on i.inhparent = heap_now
       and i.inhrelid = to_regclass(format('%I.%I', p.schema_name, p.name));
    perform thermocline.apply_seam(of_table, (select k.seam_line from thermocline.cutline k
                                               where k.table_id = of_table));
end $$;
revoke all on function thermocline.bind_table(bigint) from public;
