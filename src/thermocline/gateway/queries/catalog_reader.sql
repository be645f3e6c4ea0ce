-- name: login_verifier
select verifier from thermocline.gateway_logins where name = %s

-- name: some_locations
select i.metadata_location
from thermocline.tables t join thermocline.lake_pointers i on (i.namespace, i.name) = (t.lake_namespace, t.lake_name)
where i.metadata_location is not null
order by random() limit 3

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
from thermocline.tables t
-- Any role that may use the server can make foreign tables; only the one that registration made declares types.
join pg_class f on f.relname = t.object_name and f.relnamespace = to_regnamespace('thermocline_lake')
 and f.relkind = 'f'
join pg_attribute a on a.attrelid = f.oid and a.attnum > 0 and not a.attisdropped
left join pg_collation l on l.oid = a.attcollation
left join pg_namespace n on n.oid = l.collnamespace
where t.lake_namespace = %s and t.lake_name = %s

-- name: table_rights
-- The owner of the catalog reads every lake for our own functions; it could change any login's verifier anyway.
with login as (
    select r.oid, r.rolsuper or r.oid = (select k.relowner from pg_class k where k.oid = 'thermocline.tables'::regclass)
               as reads_everything
    from thermocline.gateway_logins l
    join pg_roles r on case when l.role_oid is null or not thermocline.is_original_database() then r.rolname = l.name
                            else r.oid = l.role_oid end
    where l.name = %(login)s
)
select t.schema_name, t.table_name,
       coalesce(g.reads_everything or has_table_privilege(g.oid, t.heap_oid, 'select'), false) as reads_whole_table,
       array(select c.field_id from thermocline.columns c
             where c.table_id = t.id and has_column_privilege(g.oid, t.heap_oid, c.attnum, 'select')) as field_ids,
       coalesce((select h.relrowsecurity from pg_class h where h.oid = t.heap_oid), false) as has_row_security
from thermocline.tables t left join login g on true
where t.lake_namespace = %(schema)s and t.lake_name = %(table)s

-- name: is_served
select exists (
    select from thermocline.tables t
    where t.lake_namespace = %(schema)s and t.lake_name = %(table)s
      and (exists (select from thermocline.published p where p.table_id = t.id and p.snapshot_id = %(snapshot_id)s)
           or exists (select from thermocline.cutline c where c.table_id = t.id and c.s = %(snapshot_id)s)
           or exists (select from thermocline.read_pins p where p.table_id = t.id and p.snapshot_id = %(snapshot_id)s
                         and p.expires_at > clock_timestamp()))) as is_served

-- name: with_row_security
select c.oid::bigint as oid from pg_class c where c.oid = any(%(oids)s::oid[]) and c.relrowsecurity

-- name: immutable_functions
select proname::text as name from pg_proc where pronamespace = 'pg_catalog'::regnamespace
group by proname having bool_or(provolatile = 'i') and not bool_or(provolatile = 'v')
