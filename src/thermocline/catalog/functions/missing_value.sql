-- The value that rows written before a column existed have in the heap: Postgres keeps it with each partition. Null
-- when there is none.
create or replace function thermocline.missing_value(heap oid, column_name text) returns text
    language sql volatile set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC'
    set intervalstyle = 'postgres' set bytea_output = 'hex' set extra_float_digits = 1 as $$
    -- By the output function, and no cast. It is kept as an array with one element; read as an array of text, the
    -- element is what the output function wrote, and the input function, which may be a domain's, is not called.
    select (a.attmissingval::text::text[])[1] from pg_partition_tree(heap) p
      join pg_attribute a on a.attrelid = p.relid
     where p.isleaf and a.attname = column_name and a.atthasmissing limit 1 $$;
