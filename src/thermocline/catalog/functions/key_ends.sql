-- The tightest ends that conditions set for the tier key, on the axis: from `low` to `high`, both included, with the
-- words that say so.
create or replace function thermocline.key_ends(conditions text[], tier_key text, key_type text,
                                                out low bigint, out low_said text,
                                                out high bigint, out high_said text)
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    part text;
    said text[];
    place bigint;
    kinds text := (select string_agg(o.name, '|')
                     from thermocline.column_types c
                     join thermocline.column_types o
                       on o.name = c.name or (o.axis_unit = 'number' and c.axis_unit = 'number')
                    where c.name = key_type);
begin
    for part in select c from unnest(conditions) u cross join lateral thermocline.conjuncts(u) c loop
        said := regexp_match(part, '^(?:(?:\w+|"(?:[^"]|"")*")\.)?'
                                   || regexp_replace(quote_ident(tier_key), '([^\w])', '\\\1', 'g')
                                   || ' (>=|>|<=|<|=) (?:''([^'']*)''::(?:' || kinds || ')|([0-9]+))$');
        continue when said is null;
        execute format('select thermocline.axis(%L::%s)', coalesce(said[2], said[3]), key_type) into place;
        part := regexp_replace(part, '^(?:\w+|"(?:[^"]|"")*")\.', '');
        if said[1] in ('>=', '>', '=') and place + (said[1] = '>')::integer > coalesce(low, -9223372036854775808) then
            low := place + (said[1] = '>')::integer;
            low_said := part;
        end if;
        if said[1] in ('<=', '<', '=') and place - (said[1] = '<')::integer < coalesce(high, 9223372036854775807) then
            high := place - (said[1] = '<')::integer;
            high_said := part;
        end if;
    end loop;
end $$;
