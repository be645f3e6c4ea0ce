-- Whether every value of the one type is, unchanged, a value of the other, in both tiers.
create or replace function thermocline.is_widening(was_base text, was_type text, is_base text, is_type text)
    returns boolean
    language sql stable set search_path = pg_catalog as $$
    select coalesce((
        select case when c.max_precision is not null
                    then (select w[2] = i[2] and i[1]::integer between w[1]::integer and c.max_precision
                            from regexp_match(was_type, '\((\d+),(\d+)\)$') w,
                                 regexp_match(is_type, '\((\d+),(\d+)\)$') i)
                    when c.is_collated
                    then coalesce(substring(is_type from '\((\d+)\)')::integer, 2147483647)
                         >= coalesce(substring(was_type from '\((\d+)\)')::integer, 2147483647)
                    else true end
          from thermocline.column_types c where c.typname = was_base and is_base = any(c.widens_to)), false) $$;
