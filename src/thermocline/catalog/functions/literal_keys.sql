-- The tier keys of `INSERT … VALUES` on the axis, one per row, null where a row's is not a constant; null for any other
-- statement.
create or replace function thermocline.literal_keys(statement text, target thermocline.spanning_detail, path text)
    returns bigint[]
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    words text[] := thermocline.sql_words(statement);
    word text;
    at integer := 3;
    depth integer := 0;
    names text[];
    items text[] := '{}';
    item text := '';
    wanted integer;
    found_keys text[] := '{}';
    outputs jsonb;
begin
    if words is null or lower(words[1]) <> 'insert' then return null; end if;
    while words[at + 1] = '.' loop at := at + 2; end loop;
    at := at + 1;
    if lower(words[at]) = 'as' then at := at + 2; end if;
    if words[at] = '(' and lower(words[at + 1]) not in ('select', 'with', 'values', 'table') then
        while words[at] <> ')' loop
            at := at + 1;
            if words[at] not in (',', ')') then
                names := names || case when words[at] like '"%' then replace(btrim(words[at], '"'), '""', '"')
                                       else lower(words[at]) end;
            end if;
        end loop;
        at := at + 1;
    end if;
    if lower(words[at]) = 'overriding' then at := at + 3; end if;
    if lower(words[at]) is distinct from 'values' then return null; end if;
    names := coalesce(names, array(select a.attname::text from pg_attribute a
        where a.attrelid = target.heap and a.attnum > 0 and not a.attisdropped order by a.attnum));
    wanted := array_position(names, target.tier_key);
    foreach word in array words[at + 1:] loop
        if depth = 0 and word not in ('(', ',') then exit; end if;
        if word in (')', ']') then depth := depth - 1; end if;
        if depth = 0 and word = ')' then
            items := items || item;
            found_keys := found_keys || case when lower(btrim(items[wanted])) = 'default' then 'null'
                                             else coalesce(items[wanted], 'null') end;
            items := '{}';
            item := '';
        elsif depth = 1 and word = ',' then
            items := items || item;
            item := '';
        elsif depth > 0 then
            item := item || ' ' || word;
        end if;
        if word in ('(', '[') then depth := depth + 1; end if;
        exit when cardinality(found_keys) > 1000;
    end loop;
    if cardinality(found_keys) not between 1 and 1000 then return null; end if;
    select thermocline.plan_of('select ' || string_agg(format('thermocline.axis((%s)::%s)', k, target.key_type),
                                                       ', '), path) #> '{0,Plan,Output}'
      into outputs from unnest(found_keys) k;
    return array(select (regexp_match(o, '^''(-?[0-9]+)''::bigint$'))[1]::bigint
                   from jsonb_array_elements_text(outputs) with ordinality x(o, place) order by place);
end $$;
