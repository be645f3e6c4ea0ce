-- name: facts
select current_setting('server_version'),
       current_setting('constraint_exclusion'),
       current_setting('wal_level'),
       has_database_privilege(current_database(), 'CREATE'),
       exists (select from pg_extension where extname = 'postgres_fdw'),
       exists (select from pg_available_extensions where name = 'postgres_fdw'),
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       extract(epoch from clock_timestamp())::float8,
       current_database()::text,
       current_user::text

-- name: event_triggers
select count(*) filter (where evtenabled in ('O', 'A')) = 5 from pg_event_trigger
 where evtname in ('thermocline_alter_start', 'thermocline_alter_end', 'thermocline_type_end', 'thermocline_guard',
     'thermocline_partition_end')

-- name: uncaptured
-- The spill and the partitions below the cut-line, or on their way there, whose changes are not captured, or were not
-- for a time.
select format('%I.%I', t.schema_name, t.table_name), format('%I.%I', c.schema_name, c.name),
    thermocline.is_captured(c.relid)
  from thermocline.tables t cross join lateral (
       select t.spill_schema as schema_name, t.spill_name as name,
           to_regclass(format('%I.%I', t.spill_schema, t.spill_name))::oid as relid,
              t.spill_capture_lost_at as lost_at
       union all
       select p.schema_name, p.name, p.relid, p.capture_lost_at from thermocline.partitions p
        where p.table_id = t.id and p.state in ('sealing', 'tiering', 'tiered')) c
 where t.id = any (array(select h.id from thermocline.tables_here h)) and c.relid is not null
     and (c.lost_at is not null or not thermocline.is_captured(c.relid))
 order by 3, 1, 2

-- name: slots
-- How many there are and may be; the one without a reader that does most harm: whether it holds a snapshot, and how
-- much WAL it keeps.
select (select count(*) from pg_replication_slots), current_setting('max_replication_slots')::int, s.slot_name::text,
    s.xmin is not null,
       pg_size_pretty(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
           else pg_current_wal_lsn() end, s.restart_lsn))
  from (values (1)) one(n)
  left join lateral (select slot_name, xmin, restart_lsn from pg_replication_slots
                      where not active and (xmin is not null or restart_lsn is not null)
                      order by xmin is null, restart_lsn limit 1) s on true

-- name: server_address
select coalesce((select o.option_value from pg_options_to_table(s.srvoptions) o where o.option_name = 'host'), ''),
       coalesce((select o.option_value from pg_options_to_table(s.srvoptions) o where o.option_name = 'port'), ''),
       current_user::text,
       exists (select from pg_user_mappings m where m.srvid = s.oid and (m.usename = current_user or m.umuser = 0))
  from pg_foreign_server s where s.srvname = %(server)s

-- name: probe_table
create foreign table pg_temp.thermocline_doctor (probe integer) server {server} options (schema_name 'thermocline',
    table_name 'doctor')

-- name: probe
select probe from pg_temp.thermocline_doctor limit 1

-- name: gateway_is_ours
select exists (select from pg_stat_activity where application_name = 'thermocline gateway'
    and datid = (select oid from pg_database where datname = current_database()))

-- name: unfinished_ops
select count(*), min(started_at) from thermocline.op_log
 where phase not in ('published', 'abandoned') and kind <> 'maintain' and changed_at < now() - interval '10 minutes'
