-- A column that the lake holds as text has a domain of its own over its type in the foreign table: postgres_fdw then
-- reads the text with the type's input function (a cast could be a user's own), and ships no condition on it.
create or replace function thermocline.lake_domain(of_table bigint, field_id integer) returns text
    language sql immutable set search_path = pg_catalog as $$
    select format('thermocline_lake.value_%s_%s', of_table, field_id) $$;
