create or replace function thermocline.apply_view_triggers(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    made record;
begin
    select * into strict t from thermocline.tables where id = of_table;
    -- Triggers fire in the order of their names: the statement's cut-line is noted before the row is routed.
    for made in select * from (values ('thermocline_a_statement_cut', 'update or delete', 'statement_cut'),
                                      ('thermocline_b_route_insert', 'insert', 'route_insert'),
                                      ('thermocline_b_route_update', 'update', 'route_update'),
                                      ('thermocline_b_route_delete', 'delete', 'route_delete'))
                              m(name, event, what)
    loop
        execute format('create or replace trigger %I instead of %s on %I.%I for each row execute function'
                       ' thermocline_fn.%I()',
                       made.name, made.event, t.seam_schema, t.table_name, t.object_name || '_' || made.what);
    end loop;
    execute format('create or replace trigger thermocline_a_on_conflict before insert on %I.%I for each statement'
                   ' execute function thermocline.refuse_do_nothing()',
                   t.seam_schema, t.table_name);
end $$;
revoke all on function thermocline.apply_view_triggers(bigint) from public;
