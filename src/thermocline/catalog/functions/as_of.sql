create or replace function thermocline.as_of(target regclass, moment timestamptz, tiers text default 'lake')
    returns setof jsonb
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    version record := thermocline.version_at(target, moment);
begin
    if tiers = 'both' then
        raise exception 'what Postgres held of % at an earlier moment is not kept: its mode is %, where the lake gets'
                        ' whole partitions and folds',
            version.heap, (select d.mode from thermocline.spanning_detail d where d.heap = version.heap)
            using errcode = 'feature_not_supported',
            hint = 'Missing is every change in the lake: it holds whole partitions and folded corrections. '
                   'thermocline.as_of(table, moment) gives the lake''s side.';
    elsif tiers is distinct from 'lake' then
        raise exception 'tiers are ''lake'' or ''both'', not %', coalesce(quote_literal(tiers), 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    return query execute format('select r from thermocline_fn.%I($1) r',
                                (select d.object_name from thermocline.spanning_detail d
                                  where d.heap = version.heap) || '_as_of')
        using moment;
end $$;
comment on function thermocline.as_of(regclass, timestamptz, text) is
    'The rows of the lake as it was published at a moment; rows that Postgres held then, and corrections not folded by'
    ' then, are not among them.';
-- Everybody may call `<table>_as_of`, which asks who the caller is; nobody may call the others.
grant usage on schema thermocline_fn to public;
