create or replace function thermocline.as_of(target regclass, moment timestamptz, tiers text default 'lake')
    returns setof jsonb
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    version record := thermocline.version_at(target, moment);
    columns text;
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
    -- The lake's text forms become the table's own types again, as in the seam.
    select string_agg(format('l.%1$I::%2$s as %1$I', a.attname, format_type(a.atttypid, a.atttypmod)), ', '
                      order by a.attnum)
      into columns
      from pg_attribute a
      join pg_attribute f on f.attrelid = version.lake::regclass and f.attname = a.attname and f.attnum > 0
       and not f.attisdropped
     where a.attrelid = version.heap and a.attnum > 0 and not a.attisdropped;
    return query execute format('select to_jsonb(r) from (select %s from %s l where l._snapshot = $1) r', columns,
                                version.lake)
        using version.snapshot_id;
end $$;
comment on function thermocline.as_of(regclass, timestamptz, text) is
    'The rows of the lake as it was published at a moment; rows that Postgres held then, and corrections not folded by'
    ' then, are not among them.';
