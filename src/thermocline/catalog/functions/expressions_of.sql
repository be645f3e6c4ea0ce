-- The expressions of a table's generated columns, in both forms; where in a statement a part of it stood is no part of
-- it.
create or replace function thermocline.expressions_of(heap oid)
    returns table (attnum smallint, expression text, tree text)
    language sql stable set search_path = pg_catalog as $$
    select a.attnum, pg_get_expr(d.adbin, d.adrelid), regexp_replace(d.adbin::text, ' :location -?\d+', '', 'g')
      from pg_attribute a join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = heap and a.attnum > 0 and not a.attisdropped and a.attgenerated <> '' $$;
