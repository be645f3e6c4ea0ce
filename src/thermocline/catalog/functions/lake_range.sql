-- The tables of the lake arm: `range` is the partitioned parent that the view reads, `none` its empty partition. Named
-- by number, like the domains of the lake's columns: the name of a foreign table always has two underscores in a row.
create or replace function thermocline.lake_range(of_table bigint, part text) returns text
    language sql immutable set search_path = pg_catalog as $$
    select format('thermocline_lake.%s_%s', part, of_table) $$;
