-- The upper end of a partition's range on the axis; null for the DEFAULT partition and for a table that is none.
create or replace function thermocline.upper_bound(relation oid, key_type text) returns bigint
    language plpgsql stable set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' as $$
declare
    high text := (select substring(pg_get_expr(c.relpartbound, c.oid)
                                   from ' TO \((MAXVALUE|''(?:[^'']|'''')*''|-?\d+)\)$')
                    from pg_class c where c.oid = relation);
    place bigint := 9223372036854775807;
begin
    if high <> 'MAXVALUE' then execute format('select thermocline.axis(%s::%s)', high, key_type) into place; end if;
    return case when high is not null then place end;
end $$;
