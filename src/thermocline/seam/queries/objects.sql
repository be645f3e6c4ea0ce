-- name: unused_domains
select y.typname from pg_type y
 where y.typnamespace = 'thermocline_lake'::regnamespace and y.typtype = 'd'
   and not exists (select from pg_attribute a where a.atttypid = y.oid and not a.attisdropped)

-- name: captured
select n.nspname, c.relname
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
  join pg_namespace n on n.oid = c.relnamespace
  join pg_proc p on p.oid = t.tgfoid
  join pg_namespace pn on pn.oid = p.pronamespace
 where pn.nspname = 'thermocline_fn' and p.proname = %(function)s and not t.tgisinternal and t.tgparentid = 0
   and c.relkind <> 'v'
 order by 1, 2
