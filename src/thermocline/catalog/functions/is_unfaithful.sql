-- Whether a type keeps no faithful text form, itself or inside.
create or replace function thermocline.is_unfaithful(type_oid oid) returns boolean
    language sql stable set search_path = pg_catalog as $$
    with recursive inside(oid) as (
        select type_oid
        union
        select part.oid from inside join pg_type i on i.oid = inside.oid cross join lateral (
            select i.typbasetype where i.typtype = 'd'
            union all select i.typelem where i.typelem <> 0
            union all select f.atttypid from pg_attribute f
                       where f.attrelid = i.typrelid and f.attnum > 0 and not f.attisdropped
            union all select r.rngsubtype from pg_range r where i.oid in (r.rngtypid, r.rngmultitypid)) part(oid))
    select exists (select from inside join pg_type b on b.oid = inside.oid
                    where b.typnamespace = 'pg_catalog'::regnamespace
                      and b.typname ~ (select concat('^_?(', string_agg(u.pattern, '|'), ')$')
                                         from thermocline.unfaithful_types u)) $$;
