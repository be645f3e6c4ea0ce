-- name: spanning_tables
select coalesce(array_agg(distinct t.table_name::text), '{}') as names,
       coalesce(array_agg(distinct c.oid::bigint) filter (where c.oid is not null), '{}') as seam_oids
from thermocline.tables t
left join pg_catalog.pg_namespace n on n.nspname = t.seam_schema
left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.table_name and c.relkind = 'v'

-- name: relations
select w.n::int as position, r.oid::bigint, r.nspname::text as schema, r.relname::text as name, r.relkind::text as kind,
       r.reltuples::float8 as estimated_rows,
       t.id as table_id, t.schema_name as heap_schema, t.table_name as heap_name, t.object_name as delta_name,
       t.lake_namespace, t.lake_name, t.pk, t.tier_key, t.key_type, t.mode, c.t, c.s,
       t.heap_oid::bigint as heap_oid,
       (select jsonb_object_agg(k.name, k.field_id) from thermocline.columns k where k.table_id = t.id) as field_ids
from unnest(%(schemas)s::text[], %(names)s::text[]) with ordinality w(nsp, rel, n)
cross join lateral (
    select k.oid, s.nspname, k.relname, k.relkind, k.reltuples
    from pg_class k
    join pg_namespace s on s.oid = k.relnamespace
    where k.relname = w.rel
      and case when w.nsp is null then s.nspname = any(%(path)s::text[])
               else s.nspname = w.nsp and has_schema_privilege(%(role)s::name, s.oid, 'usage') end
    order by array_position(%(path)s::text[], s.nspname::text)
    limit 1
) r
left join thermocline.tables t on t.seam_schema = r.nspname and t.table_name = r.relname and r.relkind = 'v'
left join thermocline.cutline c on c.table_id = t.id
order by w.n

-- name: columns
select a.attrelid::bigint as relation_oid, a.attname::text as name, a.attnum::int as position,
       a.atttypid::bigint as type_oid, a.atttypmod as type_modifier,
       coalesce(case when l.collname = 'default'
                     then (select case coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')
                                      when 'c' then d.datcollate in ('C', 'POSIX')
                                      when 'b' then true
                                      else false end
                           from pg_database d where d.datname = current_database())
                     else n.nspname = 'pg_catalog' and l.collname in ('C', 'POSIX', 'ucs_basic') end, true) as is_c,
       coalesce(l.collisdeterministic, true) as is_deterministic,
       coalesce(nullif(a.attcollation, 0), 100)::bigint as collation,
       has_column_privilege(%(role)s::name, a.attrelid, a.attnum, 'select') as is_readable
from pg_attribute a
left join pg_collation l on l.oid = a.attcollation
left join pg_namespace n on n.oid = l.collnamespace
where a.attrelid = any(%(relations)s::oid[]) and a.attnum > 0 and not a.attisdropped
order by a.attrelid, a.attnum

-- name: shadowed
select exists (select 1 from pg_proc p join pg_namespace s on s.oid = p.pronamespace
               where p.proname = any(%(functions)s::text[])
                 and s.nspname = any(%(path)s::text[])
                 and s.nspname <> 'pg_catalog'
                 and p.proargtypes::oid[] <@ %(types)s::oid[])
    or exists (select 1 from pg_operator o join pg_namespace s on s.oid = o.oprnamespace
               where s.nspname = any(%(path)s::text[]) and s.nspname <> 'pg_catalog'
                 and o.oprleft = any(%(types)s::oid[]) and o.oprright = any(%(types)s::oid[]))
    or exists (select 1 from pg_cast k
               where k.oid >= 16384 and k.castsource = any(%(types)s::oid[]) and k.casttarget = any(%(types)s::oid[]))
    as is_shadowed

-- name: default_is_c
select case coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')
           when 'c' then d.datcollate in ('C', 'POSIX')
           when 'b' then true
           else false end as is_c
from pg_database d where d.datname = current_database()
