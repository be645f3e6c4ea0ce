create or replace view thermocline.maintained as
    select t.id as table_id, null::bigint as lake_id, 'thermocline'::text as catalog, t.lake_namespace as namespace,
           t.lake_name as name, t.schema_name, t.table_name, t.maintenance_policy, 'iceberg'::text as format
      from thermocline.tables t
    union all
    select null, l.id, l.catalog, l.namespace, l.name, null, null, l.maintenance_policy, l.format
      from thermocline.lake_tables l
     -- One that was added, then registered, has readers in Postgres: passes that do not know them must not touch it.
     where not exists (select from thermocline.tables t where (t.lake_namespace, t.lake_name) = (l.namespace, l.name));
comment on view thermocline.maintained is
    'Every table whose lake is looked after: registered ones and those added by'
    ' `thermocline lake add`.';
