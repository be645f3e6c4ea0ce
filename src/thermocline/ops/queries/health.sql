-- name: tables
select t.id, t.schema_name, t.table_name, t.object_name, c.t, c.s as snapshot, p.warehouse,
       l.metadata_location as lake, (select min(x.at) from thermocline.paused x
                                      where x.table_id is null or x.table_id = t.id) as paused_since,
       (select max(e.at) from thermocline.events e where e.table_id = t.id and e.action = 'register') as registered_at,
       y.at as cycle_at, y.sentence as cycle_said, y.failing_since, w.rows as waiting_rows, w.since as waiting_since
  from thermocline.tables t
  join thermocline.cutline c on c.table_id = t.id
  left join thermocline.storage_profiles p on p.name = t.profile
  left join thermocline.lake_pointers l
    on (l.catalog, l.namespace, l.name) = (%(catalog)s, t.lake_namespace, t.lake_name)
  left join thermocline.cycles y on y.table_id = t.id
  left join thermocline.waiting_corrections w on w.table_id = t.id
 order by t.schema_name, t.table_name

-- name: server
select coalesce((select o.option_value from pg_options_to_table(s.srvoptions) o where o.option_name = 'host'), ''),
       coalesce((select o.option_value from pg_options_to_table(s.srvoptions) o where o.option_name = 'port'), ''),
       current_user::text,
       exists (select from pg_user_mappings m where m.srvid = s.oid and (m.usename = current_user or m.umuser = 0))
  from pg_foreign_server s where s.srvname = %(server)s

-- name: limit_time
select set_config('statement_timeout', %(milliseconds)s, false), set_config('lock_timeout', %(milliseconds)s, false)

-- name: read_one
-- As the seam asks: without a published snapshot the gateway answers with no row.
select 1 from {lake} where _snapshot = (select c.s from thermocline.cutline c where c.table_id = {table_id}) limit 1

-- name: probe_table
create foreign table pg_temp.thermocline_doctor (probe integer) server {server} options (schema_name 'thermocline',
    table_name 'doctor')

-- name: probe
select probe from pg_temp.thermocline_doctor limit 1

-- name: gateway_is_ours
select exists (select from pg_stat_activity where application_name = 'thermocline gateway'
    and datid = (select oid from pg_database where datname = current_database()))
