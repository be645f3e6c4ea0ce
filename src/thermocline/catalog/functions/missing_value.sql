-- The value that rows written before a column existed have in the heap: Postgres keeps it with each partition. Null
-- when there is none.
create or replace function thermocline.missing_value(heap oid, column_name text, pg_type text) returns text
    language plpgsql volatile set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC'
    set intervalstyle = 'postgres' set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
    kept text := (select a.attmissingval::text from pg_partition_tree(heap) p
                    join pg_attribute a on a.attrelid = p.relid
                   where p.isleaf and a.attname = column_name and a.atthasmissing limit 1);
    value text;
begin
    -- By the input and the output function, and no cast.
    if kept is not null then
        execute format('select case when v.x is distinct from null then concat(v.x) end'
                       ' from (select (%L::%s[])[1]) v(x)', kept, pg_type) into value;
    end if;
    return value;
end $$;
