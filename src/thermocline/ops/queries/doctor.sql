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
 where evtname in ('thermocline_alter_start', 'thermocline_alter_end', 'thermocline_type_end', 'thermocline_guard', 'thermocline_partition_end')

-- name: server_address
select srvoptions from pg_foreign_server where srvname = 'thermocline_gateway'

-- name: unfinished_ops
select count(*), min(started_at) from thermocline.op_log
 where phase not in ('published', 'abandoned') and kind <> 'maintain' and changed_at < now() - interval '10 minutes'
