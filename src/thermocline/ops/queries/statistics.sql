-- name: lake_statistics
select u.s as snapshot, f.reltuples as known_rows, current_setting('server_version_num')::int as server_version
  from thermocline.tables t
  join thermocline.cutline u on u.table_id = t.id
  join pg_class f on f.relname = t.object_name and f.relnamespace = 'thermocline_lake'::regnamespace
 where t.id = %s
