-- name: has_changed
select t.heap_grants is not null and t.heap_grants is distinct from thermocline.grants_on(t.id, t.heap_oid)
  from thermocline.tables t where t.id = %(table_id)s

-- name: changes
-- Columns by their number in the heap; roles and columns that are gone took their grants along. Where a right on the
-- whole table went, the same right on columns goes with it on the seam, and is granted again.
with was as (
    select g.* from thermocline.tables t
      cross join jsonb_to_recordset(t.heap_grants)
          as g(privilege text, attnum smallint, is_grantable boolean, grantee text)
     where t.id = %(table_id)s),
now as (
    select g.* from thermocline.tables t
      cross join jsonb_to_recordset(thermocline.grants_on(t.id, t.heap_oid))
          as g(privilege text, attnum smallint, is_grantable boolean, grantee text)
     where t.id = %(table_id)s),
removed as (select * from was except select * from now),
added as (
    select * from now except select * from was
    union
    select n.* from now n join removed r on n.privilege = r.privilege and n.grantee is not distinct from r.grantee)
select c.is_added, c.grantee, c.privilege, c.is_grantable as grantable, k.name as column
  from (select false as is_added, * from removed union all select true, * from added) c
  left join thermocline.columns k on k.table_id = %(table_id)s and k.attnum = c.attnum
 where c.privilege in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
   and (c.attnum is null or k.name is not null)
   and (c.grantee is null or to_regrole(quote_ident(c.grantee)) is not null)
 order by c.is_added, c.grantee, c.privilege, c.attnum

-- name: note
update thermocline.tables t set heap_grants = thermocline.grants_on(t.id, t.heap_oid)
 where t.id = %(table_id)s and t.heap_grants is distinct from thermocline.grants_on(t.id, t.heap_oid)
