-- Iceberg's type for a Postgres type; `string` in text form where it has no twin. core/types.py has the same table, a
-- test compares them.
create or replace function thermocline.lake_type(base text, pg_type text) returns text
    language sql immutable set search_path = pg_catalog as $$
    select case base when 'bool' then 'boolean' when 'int2' then 'int' when 'int4' then 'int' when 'int8' then 'long'
                     when 'float4' then 'float' when 'float8' then 'double' when 'date' then 'date'
                     when 'time' then 'time'
                     when 'timestamp' then 'timestamp' when 'timestamptz' then 'timestamptz' when 'uuid' then 'uuid'
                     when 'bytea' then 'binary' when 'text' then 'string' when 'varchar' then 'string'
                     when 'numeric' then (select format('decimal(%s, %s)', m[1], m[2])
                                            from regexp_matches(pg_type, '^numeric\((\d+),(\d+)\)$') m
                                           where m[1]::integer <= 38 and m[2]::integer <= m[1]::integer) end $$;
