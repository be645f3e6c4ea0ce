-- A position on the axis, given as an expression, as a value of the key's own type.
create or replace function thermocline.key_expression(key_type text, place text) returns text
    language sql stable set search_path = pg_catalog as $$
    select coalesce((select format('thermocline.%I(%s::bigint)', c.from_axis, place)
                       from thermocline.column_types c where c.name = key_type and c.from_axis is not null),
                    place || '::bigint') $$;
