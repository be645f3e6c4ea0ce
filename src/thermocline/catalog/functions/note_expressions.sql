create or replace function thermocline.note_expressions(of_table bigint) returns void
    language sql volatile set search_path = pg_catalog as $$
    update thermocline.columns c set expression = e.expression, expression_tree = e.tree
      from thermocline.columns x join thermocline.tables t on t.id = x.table_id
      left join thermocline.expressions_of(t.heap_oid) e on e.attnum = x.attnum
     where c.table_id = of_table and x.table_id = c.table_id and x.position = c.position
       and (c.expression, c.expression_tree) is distinct from (e.expression, e.tree) $$;
revoke all on function thermocline.note_expressions(bigint) from public;
