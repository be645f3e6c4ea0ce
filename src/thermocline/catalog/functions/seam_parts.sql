-- Every part that the templates name. `line` and `floor` are literals in the view: `line` limits the arms of the lake
-- and the delta, `floor` the heap's arm. `h_is_old` is true when the rows `h` and `old` have the same key, as in
-- seam/render.py.
create or replace function thermocline.seam_parts(of_table bigint, line bigint,
                                                  floor bigint default -9223372036854775808) returns jsonb
    language plpgsql stable set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    mode thermocline.modes;
    parts jsonb;
    cut text;
begin
    select * into strict t from thermocline.tables where id = of_table;
    select * into strict mode from thermocline.modes where name = t.mode;
    cut := format('(select %s from thermocline.cutline c where c.table_id operator(pg_catalog.=) %s)',
                  thermocline.key_expression(t.key_type, 'c.t'), t.id);
    parts := jsonb_build_object(
        'version', t.schema_version, 'table_id', t.id,
        'heap', format('%I.%I', t.schema_name, t.table_name), 'seam', format('%I.%I', t.seam_schema, t.table_name),
        'delta', format('thermocline_delta.%I', t.object_name), 'lake', format('thermocline_lake.%I', t.object_name),
        'lake_range', thermocline.lake_range(t.id, 'range'), 'lake_none', thermocline.lake_range(t.id, 'none'),
        'spill', format('%I.%I', t.spill_schema, t.spill_name),
        'lake_schema', quote_literal(t.lake_namespace), 'lake_table', quote_literal(t.lake_name),
        'heap_text', replace(replace(format('%I.%I', t.schema_name, t.table_name), '''', ''''''), '%', '%%'),
        'seam_text', replace(format('%I.%I', t.seam_schema, t.table_name), '''', ''''''),
        'heap_literal', quote_literal(format('%I.%I', t.schema_name, t.table_name)),
        'heap_oid', quote_literal(t.heap_oid), 'heap_natts', (select relnatts from pg_class where oid = t.heap_oid),
        'tier_key', quote_ident(t.tier_key), 'key_type', t.key_type,
        'tier_key_text', replace(replace(t.tier_key, '''', ''''''), '%', '%%'),
        'cut', cut, 'line_of', replace(cut, 'c.t::bigint',
                                       '(select r.line from thermocline.retention r where r.table_id'
                                       ' operator(pg_catalog.=) c.table_id)::bigint'),
        'line', thermocline.key_literal(t.key_type, line),
        'lowest', thermocline.key_literal(t.key_type, (thermocline.key_limits(t.key_type)).lowest),
        'lake_end', case when line > (thermocline.key_limits(t.key_type)).highest then 'maxvalue'
                         else thermocline.key_literal(t.key_type, line) end,
        'above_floor', case when floor = -9223372036854775808 then ''
                            else format('h.%I >= %s and ', t.tier_key, thermocline.key_literal(t.key_type, floor)) end,
        'kept', case when mode.heap_is_complete then '$1 is not null'
                     else format('thermocline.axis(h.%I) operator(pg_catalog.>=) $1', t.tier_key) end);
    parts := parts || (select jsonb_build_object(
        'columns', string_agg(format('%I', c.name), ', ' order by c.place),
        'h_columns', string_agg(format('h.%I', c.name), ', ' order by c.place),
        'd_columns', string_agg(format('d.%I', c.name), ', ' order by c.place),
        'old_columns', string_agg(format('old.%I', c.name), ', ' order by c.place),
        'new_columns', string_agg(format('new.%I', c.name), ', ' order by c.place),
        'writable', string_agg(format('%I', c.name), ', ' order by c.place) filter (where not c.is_generated),
        'new_writable', string_agg(format('new.%I', c.name), ', ' order by c.place) filter (where not c.is_generated),
        'requested_writable', string_agg(format('requested.%I', c.name), ', ' order by c.place)
            filter (where not c.is_generated),
        'set_from_requested', string_agg(format('%1$I = requested.%1$I', c.name), ', ' order by c.place)
            filter (where not c.is_generated and c.identity <> 'a'),
        'columns_from_excluded', string_agg(format('%1$I = excluded.%1$I', c.name), ', ' order by c.place),
        'fill_identity', coalesce(string_agg(format('if new.%1$I is null then new.%1$I := pg_catalog.nextval(%2$L);'
                                                    ' end if;', c.name, c.sequence),
            e'\n    ' order by c.place) filter (where c.identity <> ''), ''),
        'check_identity', coalesce(string_agg(format(
            'if not pg_catalog.record_image_eq(row(new.%1$I), row(old.%1$I)) then'
            ' raise exception ''column %% can only be updated to DEFAULT'', %1$L using errcode = ''428C9''; end if;',
            c.name),
            e'\n    ' order by c.place) filter (where c.identity = 'a'), ''),
        'refuse_generated', coalesce(string_agg(format('if new.%1$I is not null then'
            ' raise exception ''cannot insert a non-DEFAULT value into column %%'', %1$L using errcode = ''428C9'';'
            ' end if;', c.name),
            e'\n    ' order by c.place) filter (where c.is_generated), ''),
        'check_generated', coalesce(string_agg(format(
            'if new.%1$I is not null and not pg_catalog.record_image_eq(row(new.%1$I), row(old.%1$I)) then'
            ' raise exception ''column %% can only be updated to DEFAULT'', %1$L using errcode = ''428C9''; end if;',
            c.name),
            e'\n    ' order by c.place) filter (where c.is_generated), ''))
        from thermocline.live_columns(of_table) c);
    parts := parts || (select jsonb_build_object(
        'typed_columns', string_agg(format('%I %s', c.name, c.spelled), ', ' order by c.place),
        -- `#5.1` asks the gateway for field 5, so a column with such a name is requested by its own number.
        'foreign_columns', string_agg(format('%I %s%s', c.name, c.foreign_type,
            case when c.name ~ '^#\d+\.\d+$' then format(' options (column_name %L)', format('#%s.1', r.field_id))
                 else '' end), ', ' order by c.place))
        from thermocline.live_columns(of_table) c
        join thermocline.columns r on r.table_id = of_table and r.name = c.name);
    -- Where no row expires or ever has, none is refused; where the heap keeps its rows, no publication deletes any.
    if t.lake_retention is null and not exists (select from thermocline.retention r where r.table_id = of_table
                                                   and r.line > -9223372036854775808) then
        parts := parts || jsonb_build_object('refuse_expired', '');
    end if;
    if (select bool_and(k.is_hashable) from thermocline.key_columns(t.heap_oid, t.pk) k) then
        parts := parts || jsonb_build_object('probe_delta', '');
    end if;
    if mode.heap_is_complete then parts := parts || jsonb_build_object('skip_folded', ''); end if;
    return parts || (select jsonb_build_object(
        'key_columns', string_agg(format('%I', k.name), ', ' order by k.place),
        -- The tier key leads, so that one index serves both ranges and single keys.
        'delta_key', string_agg(format('%I', k.name), ', ' order by k.name <> t.tier_key, k.place),
        'tier_key_type', max(r.pg_type) filter (where k.name = t.tier_key),
        'old_key', string_agg(format('old.%I', k.name), ', ' order by k.place),
        'new_key', string_agg(format('new.%I', k.name), ', ' order by k.place),
        'h_is_old', string_agg(format('h.%1$I %2$s old.%1$I', k.name, k.operator), ' and ' order by k.place),
        'h_is_key', string_agg(format('h.%1$I %2$s $%3$s', k.name, k.operator, k.place), ' and ' order by k.place),
        'moved_from', format('$%s', count(*) + 1),
        'd_is_old', string_agg(format('d.%1$I %2$s old.%1$I', k.name, k.operator), ' and ' order by k.place),
        'd_is_new', string_agg(format('d.%1$I %2$s new.%1$I', k.name, k.operator), ' and ' order by k.place),
        'requested_is_old', string_agg(format('requested.%1$I %2$s old.%1$I', k.name, k.operator), ' and '
            order by k.place),
        'new_is_old', string_agg(format('new.%1$I %2$s old.%1$I', k.name, k.operator), ' and ' order by k.place),
        's_is_requested', string_agg(format('s.%1$I %2$s requested.%1$I', k.name, k.operator), ' and '
            order by k.place),
        -- Postgres probes the delta's index for few rows, and hashes the pending keys for many where it can.
        'lake_may_be_corrected', string_agg(m.is_same, ' and ' order by k.place) filter (where k.is_hashable),
        'lake_is_corrected', string_agg(m.is_same, ' and ' order by k.place),
        'key_lock', case when bool_and(k.is_hashable)
            then format('pg_catalog.hash_record_extended(row(%s), %s)',
                        string_agg(format('old.%I', k.name), ', ' order by k.place), t.id)
            else format('746101, %s', t.id) end)
        from thermocline.key_columns(t.heap_oid, t.pk) k
        join thermocline.live_columns(of_table) c on c.name = k.name
        join thermocline.columns r on r.table_id = of_table and r.name = k.name
        cross join lateral (select format('d.%1$I %2$s %3$s', k.name, k.operator,
            case when c.foreign_type ~ '^thermocline(_lake)?\.' or r.held_as is not null
                 then format('l.%I::%s', k.name, r.pg_type)
                 else format('l.%I', k.name) end) as is_same) m);
end $$;
