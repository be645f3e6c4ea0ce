-- The lowest and the highest value of a tier key's type, on the axis.
create or replace function thermocline.key_limits(key_type text, out lowest bigint, out highest bigint)
    language sql immutable set search_path = pg_catalog as $$
    select -limits.top - 1, limits.top
      from (select case key_type when 'smallint' then 32767 when 'integer' then 2147483647
                                 else 9223372036854775807 end as top) limits $$;
