-- A position on the axis as a constant of the key's own type.
create or replace function thermocline.key_literal(key_type text, place bigint) returns text
    language sql stable set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' as $$
    select quote_literal(thermocline.key_text(key_type, place)) || '::' || coalesce(
               (select c.name from thermocline.column_types c where c.name = key_type and c.from_axis is not null),
               'bigint') $$;
