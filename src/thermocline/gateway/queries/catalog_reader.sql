-- name: login_verifier
select verifier from thermocline.gateway_logins where name = %s

-- name: registered_table
select t.id from thermocline.tables t where t.lake_namespace = %s and t.lake_name = %s

-- name: published_snapshot
select c.s
from thermocline.tables t join thermocline.cutline c on c.table_id = t.id
where t.lake_namespace = %s and t.lake_name = %s

-- name: declared_columns
select coalesce(
           (select substr(o, 13) from unnest(a.attfdwoptions) o where o like 'column\_name=%%' limit 1),
           a.attname::text
       ) as name,
       a.atttypid::bigint as type_oid,
       a.atttypmod as type_modifier,
       format_type(a.atttypid, a.atttypmod) as type_name,
       n.nspname::text as collation_schema,
       l.collname::text as collation_name,
       coalesce(case when l.collname = 'default'
                     then (select case coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')
                                      when 'c' then d.datcollate in ('C', 'POSIX')
                                      when 'b' then true
                                      else false end
                           from pg_database d where d.datname = current_database())
                     else n.nspname = 'pg_catalog' and l.collname in ('C', 'POSIX', 'ucs_basic')
                end, true) as collation_is_c,
       coalesce(l.collisdeterministic, true) as collation_is_deterministic
from pg_foreign_table f
join pg_foreign_server s on s.oid = f.ftserver and s.srvname = 'thermocline_gateway'
join pg_attribute a on a.attrelid = f.ftrelid and a.attnum > 0 and not a.attisdropped
left join pg_collation l on l.oid = a.attcollation
left join pg_namespace n on n.oid = l.collnamespace
where f.ftoptions @> array['schema_name=' || %s::text, 'table_name=' || %s::text]

-- name: immutable_functions
select proname::text as name from pg_proc where pronamespace = 'pg_catalog'::regnamespace
group by proname having bool_or(provolatile = 'i') and not bool_or(provolatile = 'v')
