-- name: unused_domains
select y.typname from pg_type y
 where y.typnamespace = 'thermocline_lake'::regnamespace and y.typtype = 'd'
   and not exists (select from pg_attribute a where a.atttypid = y.oid and not a.attisdropped)
