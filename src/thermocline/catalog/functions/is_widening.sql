-- Whether every value of the one type is, unchanged, a value of the other, in both tiers.
create or replace function thermocline.is_widening(was_base text, was_type text, is_base text, is_type text)
    returns boolean
    language sql immutable set search_path = pg_catalog as $$
    select case when was_base = 'int2' then is_base in ('int4', 'int8')
                when was_base = 'int4' then is_base = 'int8'
                when was_base = 'float4' then is_base = 'float8'
                when was_base in ('varchar', 'text') and is_base in ('varchar', 'text')
                then coalesce(substring(is_type from '\((\d+)\)')::integer, 2147483647)
                     >= coalesce(substring(was_type from '\((\d+)\)')::integer, 2147483647)
                when was_base = 'numeric' and is_base = 'numeric'
                then coalesce((select w[2] = i[2] and i[1]::integer between w[1]::integer and 38
                                 from regexp_match(was_type, '^numeric\((\d+),(\d+)\)$') w,
                                      regexp_match(is_type, '^numeric\((\d+),(\d+)\)$') i), false)
                else false end $$;
