-- A place on the axis, given as an expression, as a value of the key's own type.
create or replace function thermocline.key_expression(key_type text, place text) returns text
    language sql immutable set search_path = pg_catalog as $$
    select case key_type when 'date' then format('thermocline.key_date(%s::bigint)', place)
                         when 'timestamp without time zone' then format('thermocline.key_timestamp(%s::bigint)', place)
                         when 'timestamp with time zone' then format('thermocline.key_timestamptz(%s::bigint)', place)
                         else place || '::bigint' end $$;
