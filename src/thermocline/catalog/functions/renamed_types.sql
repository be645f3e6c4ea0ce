-- Columns whose type is called otherwise than it was, and is the same type: the delta's column has it.
create or replace function thermocline.renamed_types(of_table bigint)
    returns table (attnum smallint, pg_type text, base_type text)
    language sql stable set search_path = pg_catalog as $$
    select n.attnum, format_type(n.atttypid, n.atttypmod), thermocline.base_type(n.atttypid)
      from thermocline.tables t
      join thermocline.columns x on x.table_id = t.id
      join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum
      join pg_attribute d on d.attrelid = to_regclass(format('thermocline_delta.%I', t.object_name))
           and d.attname = x.name and d.atttypid = n.atttypid and d.atttypmod = n.atttypmod
     where t.id = of_table and format_type(n.atttypid, n.atttypmod) <> x.pg_type $$;
