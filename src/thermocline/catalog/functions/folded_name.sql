-- A name as Postgres reads it: as it is where it is quoted; else its ASCII letters, and no others, in lower case.
create or replace function thermocline.folded_name(spelled text) returns text
    language sql immutable set search_path = pg_catalog as $$
    select case when spelled like '"%' then replace(substr(spelled, 2, length(spelled) - 2), '""', '"')
                else translate(spelled, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz') end $$;
