-- name: relation
select c.oid, c.relkind::text as kind, c.relpersistence::text as persistence, c.relrowsecurity as has_row_security,
       pg_get_userbyid(c.relowner) as owner, c.relispartition as is_partition,
       n.nspname like 'pg\_%%' or n.nspname = 'information_schema' as is_system,
       p.partstrat::text as strategy, p.partattrs::int2[]::int[] as partition_attnums,
       pg_get_partkeydef(c.oid) as partition_key_text, d.relname as default_partition,
       exists (select from pg_index x
                where x.indrelid = c.oid and x.indisprimary and not x.indimmediate) as primary_key_is_deferrable,
       obj_description(c.oid, 'pg_class') as comment
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_partitioned_table p on p.partrelid = c.oid
  left join pg_class d on d.oid = p.partdefid and p.partdefid <> 0
 where n.nspname = %(schema)s and c.relname = %(table)s

-- name: columns
select a.attname as name, a.attnum,
       case when tn.nspname = 'pg_catalog' then t.typname
            else format('%%I.%%I', tn.nspname, t.typname) end as base_type,
       format_type(a.atttypid, a.atttypmod) as pg_type, a.attnotnull as not_null,
       case when a.atttypid = 'numeric'::regtype and a.atttypmod >= 4
            then ((a.atttypmod - 4) >> 16) & 65535 end as numeric_precision,
       case when a.atttypid = 'numeric'::regtype and a.atttypmod >= 4
            then (((a.atttypmod - 4) & 2047) # 1024) - 1024 end as numeric_scale,
       case when a.attcollation <> 0 then format('%%I.%%I', cn.nspname, co.collname) end as collation,
       case when a.attcollation = 0 then true
            when co.collname = 'default' then %(database_collation_is_c)s
            else co.collname in ('C', 'POSIX', 'ucs_basic', 'C.utf8', 'C.UTF-8', 'pg_c_utf8') end as collation_is_c,
       case when a.attgenerated = '' then pg_get_expr(ad.adbin, ad.adrelid) end as default,
       a.attidentity::text as identity,
       case when a.attidentity <> ''
            then pg_get_serial_sequence(format('%%I.%%I', %(schema)s::text, %(table)s::text), a.attname)
            end as identity_sequence,
       a.attgenerated <> '' as generated, a.attgenerated = 'v' as is_virtual,
       col_description(a.attrelid, a.attnum) as comment, array(
           with recursive inside(oid) as (
               select a.atttypid
               union
               select part.oid from inside join pg_type i on i.oid = inside.oid cross join lateral (
                   select i.typbasetype where i.typtype = 'd'
                   union all select i.typelem where i.typelem <> 0
                   union all select f.atttypid from pg_attribute f
                              where f.attrelid = i.typrelid and f.attnum > 0 and not f.attisdropped
                   union all select r.rngsubtype from pg_range r where i.oid in (r.rngtypid, r.rngmultitypid)
               ) part(oid))
           select b.typname::text from inside join pg_type b on b.oid = inside.oid
            where b.typnamespace = 'pg_catalog'::regnamespace order by 1) as made_of
  from pg_attribute a
  join pg_type t on t.oid = a.atttypid
  join pg_namespace tn on tn.oid = t.typnamespace
  left join pg_attrdef ad on ad.adrelid = a.attrelid and ad.adnum = a.attnum
  left join pg_collation co on co.oid = a.attcollation
  left join pg_namespace cn on cn.oid = co.collnamespace
 where a.attrelid = %(oid)s and a.attnum > 0 and not a.attisdropped
 order by a.attnum

-- name: database_collation
select to_jsonb(d) ->> 'datlocprovider' as provider, d.datcollate as collate,
       coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale') as locale
  from pg_database d where d.datname = current_database()

-- name: primary_key
select a.attname as name, on_.nspname as operator_schema, o.oprname as operator, exists (
           select 1 from pg_amproc h
             join pg_opclass hc on hc.opcfamily = h.amprocfamily and hc.opcdefault
             join pg_am am on am.oid = hc.opcmethod and am.amname = 'hash'
            where h.amprocnum = 2 and hc.opcintype in (a.atttypid, oc.opcintype)) as is_hashable
  from pg_index i
  cross join lateral unnest(i.indkey::int2[], i.indclass::oid[]) with ordinality k(attnum, opclass, place)
  join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
  join pg_opclass oc on oc.oid = k.opclass
  join pg_amop ao on ao.amopfamily = oc.opcfamily and ao.amopstrategy = 3
       and ao.amoplefttype = oc.opcintype and ao.amoprighttype = oc.opcintype
  join pg_operator o on o.oid = ao.amopopr
  join pg_namespace on_ on on_.oid = o.oprnamespace
 where k.place <= i.indnkeyatts and i.indexrelid = (
           select x.indexrelid from pg_index x cross join lateral (
               select array_agg(c.attname::text) as names, bool_and(c.attnotnull) as all_not_null from pg_attribute c
                where c.attrelid = x.indrelid and c.attnum = any((x.indkey::int2[])[0:x.indnkeyatts - 1])) covered
            where x.indrelid = %(oid)s and x.indisunique and x.indisvalid and x.indpred is null and x.indexprs is null
              and case when %(identity)s::text[] is null then x.indisprimary
                       else x.indimmediate and covered.all_not_null
                            and covered.names @> %(identity)s::text[] and covered.names <@ %(identity)s::text[] end
            order by x.indisprimary desc, x.indexrelid limit 1)
 order by k.place

-- name: inbound_foreign_keys
select format('%%s (constraint %%I)', conrelid::regclass, conname) as sentence
  from pg_constraint where confrelid = %(oid)s and contype = 'f' and conparentid = 0
 order by 1

-- name: acting_foreign_keys
select format('%%I, which changes rows here when one of %%s goes or changes', conname, confrelid::regclass) as sentence
  from pg_constraint
 where conrelid = %(oid)s and contype = 'f' and conparentid = 0
   and (confdeltype in ('c', 'n', 'd') or confupdtype in ('c', 'n', 'd'))
 order by 1

-- name: partitions
select c.oid, n.nspname as schema, c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bounds,
       c.relkind::text as kind, c.relpersistence = 'p' as is_permanent
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  join pg_namespace n on n.oid = c.relnamespace
 where i.inhparent = %(oid)s and not coalesce((to_jsonb(i) ->> 'inhdetachpending')::boolean, false)
 order by c.oid

-- name: grants
select case a.grantee when 0 then null else pg_get_userbyid(a.grantee) end as grantee, a.privilege_type as privilege,
       a.is_grantable as grantable, null::text as column
  from pg_class c cross join lateral aclexplode(c.relacl) a
 where c.oid = %(oid)s and a.grantee <> c.relowner and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
union all
select case a.grantee when 0 then null else pg_get_userbyid(a.grantee) end, a.privilege_type, a.is_grantable, t.attname
  from pg_class c join pg_attribute t on t.attrelid = c.oid and t.attnum > 0 and not t.attisdropped
 cross join lateral aclexplode(t.attacl) a
 where c.oid = %(oid)s and a.grantee <> c.relowner and a.privilege_type in ('SELECT', 'INSERT', 'UPDATE')
 order by 1, 2, 4

-- name: positions_on_axis
select thermocline.axis(v::{key_type}) from unnest({literals}::text[]) with ordinality u(v, place) order by place
