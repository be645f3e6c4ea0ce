-- The registered tables whose object numbers (of relations, columns and types) are this database's own. A restored dump
-- gave every object another number: what the catalog notes may be the number of somebody else's table. Event triggers
-- follow these tables and no others.
create or replace view thermocline.tables_here as
select t.id, t.schema_name, t.table_name, t.object_name, t.heap_oid, t.key_type,
       m.heap_is_complete, m.drops_partitions
  from thermocline.tables t
  join thermocline.modes m on m.name = t.mode
 where thermocline.is_original_database()
    or (exists (select from thermocline.database_identity h where h.catalog_oid = 'thermocline.tables'::regclass)
        and to_regclass(format('%I.%I', t.schema_name, t.table_name)) = t.heap_oid
        and (select max(c.attnum) from thermocline.columns c where c.table_id = t.id)
            <= (select h.relnatts from pg_class h where h.oid = t.heap_oid));
revoke all on thermocline.tables_here from public;
comment on view thermocline.tables_here is 'Registered tables whose object numbers are valid in this database.';
