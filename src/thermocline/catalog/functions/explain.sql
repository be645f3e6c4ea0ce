create or replace function thermocline.explain(statement text, path text) returns setof text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    report jsonb := thermocline.explain_json(statement, path);
    x jsonb;
    line text;
begin
    if report -> 'refusal' <> 'null' then
        return next format('refused by Postgres (%s): %s', report #>> '{refusal,sqlstate}',
                           report #>> '{refusal,sentence}');
    elsif report -> 'tables' = '[]' then
        return next 'no spanning table is touched';
    end if;
    for x in select t from jsonb_array_elements(report -> 'tables') t loop
        return next format('%s on %s (%s), named by its %s', x ->> 'operation', x ->> 'table', x ->> 'mode',
                           x ->> 'named');
        return next format('  %s%s', x ->> 'verdict', coalesce(': ' || (x ->> 'deciding'), ''));
        return next format('  T = %s, S = %s, R = %s', x ->> 't', coalesce(x ->> 's', 'none'),
                           coalesce(x ->> 'r', 'none'));
        if x -> 'rows' <> 'null' then
            return next format('  rows: %s recent, %s historical, %s below the retention line,'
                               ' %s not known before it runs',
                               x #>> '{rows,recent}', x #>> '{rows,historical}', x #>> '{rows,expired}',
                               x #>> '{rows,unknown}');
        end if;
        if x ->> 'operation' <> 'insert' then
            return next format('  heap: %s; spill: %s; lake: %s; delta: %s',
                coalesce(nullif((select string_agg(h, ', ') from jsonb_array_elements_text(x -> 'heap') h), ''),
                         'not read'),
                case when (x ->> 'spill')::boolean then 'read' else 'not read' end,
                case jsonb_array_length(x -> 'lake') when 0 then 'not asked' else 'asked' end,
                case when (x ->> 'delta')::boolean then 'read' else 'not read' end);
        end if;
        for line in select format('  %s rows, %s: %s', p ->> 'side', p ->> 'operation', p ->> 'sentence')
                      from jsonb_array_elements(x -> 'paths') p
        loop
            return next line;
        end loop;
        for line in select '  warning: ' || w from jsonb_array_elements_text(x -> 'warnings') w loop
            return next line;
        end loop;
        if x ->> 'refusal' is not null then return next '  refused: ' || (x ->> 'refusal'); end if;
    end loop;
end $$;

-- The caller's search_path is read where it still is the caller's.
create or replace function thermocline.explain(statement text) returns setof text language sql volatile
    begin atomic
        select e from thermocline.explain(statement, current_setting('search_path')) e;
    end;
comment on function thermocline.explain(text) is
    'Says, running nothing, which tiers a statement touches, why, and where its rows would go.';
