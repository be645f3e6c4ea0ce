-- What a value's text form depends on: the attributes of a composite by number and type, the constraints of a domain.
create or replace function thermocline.type_shape(of_type oid) returns text[]
    language sql stable set search_path = pg_catalog as $$
    select case y.typtype
           when 'c' then array(select concat(a.attnum, ' ', format_type(a.atttypid, a.atttypmod)) from pg_attribute a
                                where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum)
           when 'd' then array(select regexp_replace(pg_get_constraintdef(k.oid), ' NOT VALID$', '')
                                 from pg_constraint k
                                where k.contypid = y.oid and k.contype = 'c'
                               union all select 'NOT NULL' where y.typnotnull order by 1) end
      from pg_type y where y.oid = of_type $$;
