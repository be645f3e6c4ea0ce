-- A correction at or above the cut-line mirrors a row of the heap. One without its row is left of a partition that was
-- dropped or detached, and would bring the row back once the cut-line has passed it. Deleted by its version: a row that
-- is written anew meanwhile stays.
create or replace function thermocline.clear_stale(of_table bigint, high bigint) returns bigint
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    within text;
    cleared bigint;
begin
    select * into strict t from thermocline.tables where id = of_table;
    within := format('%%1$s.%1$I >= %2$s and %%1$s.%1$I < %3$s', replace(t.tier_key, '%', '%%'),
                     thermocline.key_literal(t.key_type, (select c.t from thermocline.cutline c
                                                           where c.table_id = of_table)),
                     thermocline.key_literal(t.key_type, high));
    execute format('delete from thermocline_delta.%1$I x using'
                   ' (select d._version from thermocline_delta.%1$I d where d._op = 0 and %2$s'
                   ' and not exists (select from %3$s h where %4$s)) s where x._version = s._version and %5$s',
                   t.object_name, format(within, 'd'), t.heap_oid::regclass,
                   (select string_agg(format('h.%1$I %2$s d.%1$I', k.name, k.operator), ' and ')
                      from thermocline.key_columns(t.heap_oid, t.pk) k),
                   format(within, 'x'));
    get diagnostics cleared = row_count;
    return cleared;
end $$;
revoke all on function thermocline.clear_stale(bigint, bigint) from public;
