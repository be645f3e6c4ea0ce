-- The same place as a constant.
create or replace function thermocline.key_literal(key_type text, place bigint) returns text
    language sql stable set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' as $$
    select case key_type when 'date' then quote_literal(thermocline.key_date(place)) || '::date'
                         when 'timestamp without time zone' then quote_literal(thermocline.key_timestamp(place))
                             || '::timestamp'
                         when 'timestamp with time zone' then quote_literal(thermocline.key_timestamptz(place))
                             || '::timestamptz'
                         else quote_literal(place) || '::bigint' end $$;
