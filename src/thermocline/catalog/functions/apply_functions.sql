-- The routing, capture and as-of functions, owned by the heap's owner; triggers that call them go on calling them.
create or replace function thermocline.apply_functions(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    parts jsonb := thermocline.seam_parts(of_table, 0);
    what text;
    made text;
    owner text;
begin
    select * into strict t from thermocline.tables where id = of_table;
    owner := (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = t.heap_oid);
    foreach what in array array['capture', 'statement_cut', 'route_insert', 'route_update', 'route_delete',
                                'capture_truncate', 'truncate_notice']
    loop
        made := format('thermocline_fn.%I', t.object_name || '_' || what);
        -- A user's column may be called like one of our variables; in a statement the column is meant.
        execute format('create or replace function %s() returns trigger language plpgsql %s security definer set'
                       ' search_path = %s as %L',
                       made, case what when 'statement_cut' then 'stable' else 'volatile' end,
                       (select string_agg(quote_ident(p.name), ', ' order by p.place)
                          from (select n.name, min(n.place) as place
                                  from unnest(array['pg_catalog', t.schema_name, 'public', 'pg_temp'])
                                      with ordinality n(name, place)
                                 group by n.name) p),
                       e'#variable_conflict use_column\n' || thermocline.render(what, parts));
        execute format('alter function %s() owner to %I', made, owner);
        execute format('revoke all on function %s() from public', made);
    end loop;
    -- It reads the lake's texts as the table's own types, so it runs as the table's owner, whose types they may be.
    made := format('thermocline_fn.%I', t.object_name || '_as_of');
    execute format('create or replace function %s(moment timestamptz) returns setof jsonb language plpgsql stable'
                   ' security definer set search_path = pg_catalog, pg_temp as %L',
                   made, thermocline.render('as_of', parts));
    execute format('alter function %s(timestamptz) owner to %I', made, owner);
    execute format('grant execute on function %s(timestamptz) to public', made);
end $$;
revoke all on function thermocline.apply_functions(bigint) from public;
