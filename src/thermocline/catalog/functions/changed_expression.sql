-- A generated column with another expression than values outside the heap were computed by, as a sentence; null when
-- there is none.
create or replace function thermocline.changed_expression(of_table bigint) returns text
    language sql stable set search_path = pg_catalog as $$
    select format('generated column %s has another expression: %s, which was %s', c.name, e.expression, c.expression)
      from thermocline.tables t join thermocline.columns c on c.table_id = t.id
      join thermocline.expressions_of(t.heap_oid) e on e.attnum = c.attnum
     where t.id = of_table and e.expression <> c.expression and e.tree <> c.expression_tree
     order by c.position limit 1 $$;
