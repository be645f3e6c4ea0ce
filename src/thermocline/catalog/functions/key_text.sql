create or replace function thermocline.key_text(key_type text, place bigint) returns text
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select case key_type when 'date' then thermocline.key_date(place)::text
                         when 'timestamp without time zone' then thermocline.key_timestamp(place)::text
                         when 'timestamp with time zone' then thermocline.key_timestamptz(place)::text
                         else place::text end $$;
