-- name: relation_exists
select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %(schema)s
    and c.relname = %(table)s

-- name: owner
select pg_get_userbyid(c.relowner)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname = %(schema)s and c.relname = %(table)s

-- name: owner_is_needed
select %(owner)s = current_user
    or exists (select from pg_namespace n where n.nspname = 'thermocline' and pg_get_userbyid(n.nspowner) = %(owner)s)
    or exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'thermocline_lake' and pg_get_userbyid(c.relowner) = %(owner)s)

-- name: forget_login
delete from thermocline.gateway_logins where name = %(owner)s

-- name: empty_seam_schema
select from pg_namespace n
 where n.nspname = %(schema)s and obj_description(n.oid, 'pg_namespace') = %(comment)s
     and pg_has_role(current_user, n.nspowner, 'USAGE')
   and not exists (select from pg_depend d where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid)

-- name: counted_rows
select coalesce(sum(rows_in_lake) filter (where is_whole), 0),
       coalesce(sum(rows_in_lake) filter (where state = 'dropped'), 0)
  from thermocline.partitions_in_heap where table_id = %(table_id)s
