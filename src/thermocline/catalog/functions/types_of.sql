-- The types that a table's columns hold, within arrays, domains, ranges and composites too.
create or replace function thermocline.types_of(of_table bigint) returns setof oid
    language sql stable set search_path = pg_catalog as $$
    with recursive held(type_oid) as (
        select a.atttypid from thermocline.tables t
          join pg_attribute a on a.attrelid = t.heap_oid and a.attnum > 0 and not a.attisdropped
         where t.id = of_table
        union
        select part.type_oid from held h join pg_type y on y.oid = h.type_oid cross join lateral (
            select y.typbasetype as type_oid union all select y.typelem
            union all select r.rngsubtype from pg_range r where r.rngtypid = y.oid
            union all select r.rngtypid from pg_range r where r.rngmultitypid = y.oid
            union all select a.atttypid from pg_attribute a
                       where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped) part
         where part.type_oid <> 0)
    select h.type_oid from held h $$;
