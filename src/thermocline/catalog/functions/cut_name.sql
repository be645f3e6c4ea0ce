-- A name cut to so many bytes, between two characters.
create or replace function thermocline.cut_name(name text, bytes integer) returns text
    language sql immutable set search_path = pg_catalog as $$
    select left(name, n) from generate_series(bytes, 0, -1) n where octet_length(left(name, n)) <= bytes limit 1 $$;
