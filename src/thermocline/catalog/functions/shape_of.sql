-- The columns of a heap as far as they matter to the seam; every name outside pg_catalog qualified.
create or replace function thermocline.shape_of(heap oid) returns text
    language sql stable set search_path = pg_catalog as $$
    select (select c.relnatts from pg_class c where c.oid = heap) || e'\n'
           || string_agg(concat_ws(' ', a.attnum, quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
                                   a.attcollation, a.attnotnull, a.attidentity, a.attgenerated,
                                   pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum)),
                         e'\n' order by a.attnum)
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = heap and a.attnum > 0 and not a.attisdropped $$;
