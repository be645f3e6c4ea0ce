-- The lower end of a partition's range on the axis; null for the DEFAULT partition.
create or replace function thermocline.lower_bound(relation oid, key_type text) returns bigint
    language plpgsql stable set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' as $$
declare
    low text := (select substring(pg_get_expr(c.relpartbound, c.oid)
                                  from '^FOR VALUES FROM \((MINVALUE|''(?:[^'']|'''')*''|-?\d+)\) TO')
                   from pg_class c where c.oid = relation);
    place bigint := -9223372036854775808;
begin
    if low <> 'MINVALUE' then execute format('select thermocline.axis(%s::%s)', low, key_type) into place; end if;
    return case when low is not null then place end;
end $$;
