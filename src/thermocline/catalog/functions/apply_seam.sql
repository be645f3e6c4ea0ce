-- Functions and view of a table, and the shape they were made for.
create or replace function thermocline.apply_seam(of_table bigint, line bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    perform thermocline.note_types(of_table);
    perform thermocline.note_expressions(of_table);
    perform thermocline.apply_functions(of_table);
    perform thermocline.apply_view(of_table, line);
    update thermocline.tables t set shape = thermocline.shape_of(t.heap_oid),
           last_field_id = greatest(t.last_field_id, (select max(c.field_id) from thermocline.columns c
                                                       where c.table_id = of_table))
     where t.id = of_table;
end $$;
revoke all on function thermocline.apply_seam(bigint, bigint) from public;
