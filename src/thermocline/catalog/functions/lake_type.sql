-- Iceberg's type for a Postgres type; null where it is held as text.
create or replace function thermocline.lake_type(base text, pg_type text) returns text
    language sql stable set search_path = pg_catalog as $$
    select case when c.max_precision is null then c.lake_type
                else (select format('%s(%s, %s)', c.lake_type, m[1], m[2])
                        from regexp_match(pg_type, '\((\d+),(\d+)\)$') m
                       where m[1]::integer <= c.max_precision and m[2]::integer <= m[1]::integer) end
      from thermocline.column_types c where c.typname = base $$;
