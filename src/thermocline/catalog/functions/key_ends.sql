-- The tightest ends that conditions set for the tier key, on the axis: from `low` to `high`, both included, with the
-- condition that sets each end.
create or replace function thermocline.key_ends(conditions text[], tier_key text, key_type text,
                                                out low bigint, out low_condition text,
                                                out high bigint, out high_condition text)
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    part text;
    matched text[];
    place bigint;
    kinds text := (select string_agg(o.name, '|')
                     from thermocline.column_types c
                     join thermocline.column_types o
                       on o.name = c.name or (o.axis_unit = 'number' and c.axis_unit = 'number')
                    where c.name = key_type);
begin
    for part in select c from unnest(conditions) u cross join lateral thermocline.conjuncts(u) c loop
        matched := regexp_match(part, '^(?:(?:\w+|"(?:[^"]|"")*")\.)?'
                                   || regexp_replace(quote_ident(tier_key), '([^\w])', '\\\1', 'g')
                                   || ' (>=|>|<=|<|=) (?:''([^'']*)''::(?:' || kinds || ')|([0-9]+))$');
        continue when matched is null;
        execute format('select thermocline.axis(%L::%s)', coalesce(matched[2], matched[3]), key_type) into place;
        part := regexp_replace(part, '^(?:\w+|"(?:[^"]|"")*")\.', '');
        if matched[1] in ('>=', '>', '=')
           and place + (matched[1] = '>')::integer > coalesce(low, -9223372036854775808) then
            low := place + (matched[1] = '>')::integer;
            low_condition := part;
        end if;
        if matched[1] in ('<=', '<', '=')
           and place - (matched[1] = '<')::integer < coalesce(high, 9223372036854775807) then
            high := place - (matched[1] = '<')::integer;
            high_condition := part;
        end if;
    end loop;
end $$;
