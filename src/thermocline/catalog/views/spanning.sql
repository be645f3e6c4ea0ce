-- What a role may know of the registered tables: those it has some right on. A view, so `has_table_privilege` checks
-- the reader's rights.
create or replace view thermocline.spanning with (security_barrier) as
select t.id, t.heap_oid::regclass as heap, s.seam, t.pk, t.tier_key, c.t, c.s
  from thermocline.tables t
  join thermocline.cutline c on c.table_id = t.id
  cross join lateral (select to_regclass(format('%I.%I', t.seam_schema, t.table_name)) as seam) s
 where has_table_privilege(t.heap_oid, 'select, insert, update, delete')
    or has_any_column_privilege(t.heap_oid, 'select, insert, update')
    or has_table_privilege(s.seam, 'select, insert, update, delete')
    or has_any_column_privilege(s.seam, 'select, insert, update');
grant select on thermocline.spanning to public;
