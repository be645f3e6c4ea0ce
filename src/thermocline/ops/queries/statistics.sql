-- name: lake_statistics
select i.metadata_location, u.s, f.oid::bigint, f.reltuples, current_setting('server_version_num')::int
from thermocline.tables t
join thermocline.cutline u on u.table_id = t.id
join thermocline_iceberg.iceberg_tables i
    on i.catalog_name = 'thermocline' and i.table_namespace = t.lake_namespace and i.table_name = t.lake_name
join pg_class f on f.relname = t.object_name and f.relnamespace = 'thermocline_lake'::regnamespace
where t.id = %s
