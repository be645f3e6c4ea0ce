-- Follows the heap's columns: delta, foreign table, catalog, functions and view, in the caller's transaction. What was
-- done, one sentence each. The lake's own schema and the foreign table's new columns come with the next cycle; until
-- then the view itself knows what lake rows read as.
create or replace function thermocline.follow_schema(of_table bigint, is_loosened boolean default false) returns text[]
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    changes text[] := '{}';
    retyped text[] := '{}';
    renames jsonb;
    c thermocline.columns;
    a pg_attribute;
    delta text;
    lake text;
begin
    select * into t from thermocline.tables where id = of_table;
    if not found or not exists (select from pg_class h where h.oid = t.heap_oid)
       or (not is_loosened and thermocline.shape_of(t.heap_oid) is not distinct from t.shape
           and thermocline.changed_type(of_table) is null)
    then return changes; end if;
    -- In the order of the publications: heap and spill, cut-line, table, delta. A transaction whose snapshot is older
    -- than the view's literals must not write older ones into it: it fails to serialize here.
    perform from thermocline.cutline k where k.table_id = of_table for share;
    select * into t from thermocline.tables where id = of_table for update;
    execute format('lock table only %s in access share mode', t.heap_oid::regclass);
    if thermocline.changed_type(of_table) is not null and thermocline.has_rows_outside(of_table) then
        perform thermocline.refuse_change(of_table, thermocline.changed_type(of_table), null);
    end if;
    -- Where event triggers are there, on_rewrite() has refused it in its statement.
    if thermocline.changed_expression(of_table) is not null and thermocline.has_rows_outside(of_table) then
        perform thermocline.refuse_change(of_table, thermocline.changed_expression(of_table),
                                          'the values in the heap alone were computed anew');
    end if;
    delta := format('thermocline_delta.%I', t.object_name);
    lake := format('thermocline_lake.%I', t.object_name);
    perform thermocline.loosen_seam(of_table);
    -- Columns that were added come to the foreign table later, with the lake's own.
    if exists (select from thermocline.columns x join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum
                where x.table_id = of_table and (n.attisdropped or n.attname <> x.name)) then
        perform thermocline.release_lake(of_table);
    end if;
    for c in select x.* from thermocline.columns x
               join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum and n.attisdropped
              where x.table_id = of_table order by x.position
    loop
        if c.name = any (t.pk) then
            perform thermocline.refuse_change(of_table, format('column %s was dropped', c.name),
                                              'it is part of the key');
        end if;
        execute format('alter table %s drop column %I', delta, c.name);
        execute format('alter foreign table %s drop column if exists %I', lake, c.name);
        execute format('drop domain if exists %s', thermocline.lake_domain(of_table, c.field_id));
        -- The view's column gives its name up at once: another may be added under it.
        execute coalesce((
            select format('alter view %s rename column %I to %I', v.attrelid::regclass, v.attname,
                          thermocline.cut_name(v.attname, 48) || '_dropped_' || v.attnum)
              from pg_attribute v where v.attrelid = to_regclass(format('%I.%I', t.seam_schema, t.table_name))
               and v.attname = c.name), 'select');
        delete from thermocline.columns x where x.table_id = of_table and x.attnum = c.attnum;
        changes := changes || format('column %s dropped', c.name);
    end loop;
    renames := (select jsonb_agg(jsonb_build_object('was', x.name, 'now', n.attname, 'attnum', n.attnum,
                                                    'absent', x.absent, 'field_id', x.field_id) order by x.position)
                  from thermocline.columns x join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum
                 where x.table_id = of_table and n.attname <> x.name);
    if renames is not null then
        changes := changes || (select array_agg(format('column %s renamed to %s', r ->> 'was', r ->> 'now'))
                           from jsonb_array_elements(renames) r);
        perform thermocline.rename_columns('table', delta, renames);
        perform thermocline.rename_columns('foreign table', lake, (select coalesce(jsonb_agg(r), '[]')
                                                                     from jsonb_array_elements(renames) r
                                                                    where not (r ->> 'absent')::boolean));
        if to_regclass(format('%I.%I', t.seam_schema, t.table_name)) is not null then
            perform thermocline.rename_columns('view', format('%I.%I', t.seam_schema, t.table_name), renames);
        end if;
        perform thermocline.point_foreign_column(lake, r ->> 'now', (r ->> 'field_id')::integer, t.schema_version + 1)
           from jsonb_array_elements(renames) r where not (r ->> 'absent')::boolean;
        update thermocline.columns x set name = r ->> 'now' from jsonb_array_elements(renames) r
         where x.table_id = of_table and x.attnum = (r ->> 'attnum')::integer;
        update thermocline.tables x
           set pk = array(select coalesce((select r ->> 'now' from jsonb_array_elements(renames) r
                                            where r ->> 'was' = k.name), k.name)
                            from unnest(x.pk) with ordinality k(name, place) order by k.place),
               tier_key = coalesce((select r ->> 'now' from jsonb_array_elements(renames) r
                                     where r ->> 'was' = x.tier_key), x.tier_key)
         where x.id = of_table;
    end if;
    -- The delta's column has the very type still: the type got another name or schema, and every value stays as it was.
    update thermocline.columns x set pg_type = r.pg_type, base_type = r.base_type
      from thermocline.renamed_types(of_table) r
     where x.table_id = of_table and x.attnum = r.attnum;
    for c in select x.* from thermocline.columns x
               join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum
              where x.table_id = of_table and format_type(n.atttypid, n.atttypmod) <> x.pg_type order by x.position
    loop
        select n.* into a from pg_attribute n where n.attrelid = t.heap_oid and n.attnum = c.attnum;
        changes := changes || thermocline.follow_retyped(t, c, a);
        retyped := retyped || c.name;
    end loop;
    for a in select n.* from pg_attribute n where n.attrelid = t.heap_oid and n.attnum > 0 and not n.attisdropped
                and not exists (select from thermocline.columns x where x.table_id = of_table and x.attnum = n.attnum)
              order by n.attnum
    loop
        changes := changes || thermocline.follow_added(t, a);
    end loop;
    for a in select n.* from pg_attribute n
               join pg_attribute d on d.attrelid = delta::regclass and d.attname = n.attname
              where n.attrelid = t.heap_oid and n.attnum > 0 and not n.attisdropped and d.attcollation <> n.attcollation
    loop
        perform thermocline.refuse_change(of_table, format('column %s has another collation', a.attname), null);
    end loop;
    if not exists (select from thermocline.tables x cross join lateral thermocline.key_columns(x.heap_oid, x.pk)
                    where x.id = of_table) then
        perform thermocline.refuse_change(of_table, 'its primary key is gone', 'it tells the rows of both tiers apart');
    end if;
    update thermocline.tables x set shape = thermocline.shape_of(x.heap_oid), schema_version = x.schema_version + 1,
           lake_behind = x.lake_behind or changes <> '{}' where x.id = of_table;
    perform thermocline.note_types(of_table);
    perform thermocline.note_expressions(of_table);
    perform thermocline.apply_functions(of_table);
    perform thermocline.apply_view(of_table, (select k.seam_line from thermocline.cutline k
                                               where k.table_id = of_table), retyped);
    if changes <> '{}' then
        insert into thermocline.events (table_id, action, sentence)
        values (of_table, 'schema', format('%s.%s: %s.', t.schema_name, t.table_name, array_to_string(changes, '; ')));
    end if;
    return changes;
end $$;
revoke all on function thermocline.follow_schema(bigint, boolean) from public;
