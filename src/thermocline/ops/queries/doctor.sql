-- name: facts
select has_database_privilege(current_database(), 'CREATE') as may_create,
       exists (select from pg_extension where extname = 'postgres_fdw') as has_fdw,
       exists (select from pg_available_extensions where name = 'postgres_fdw') as fdw_available,
       coalesce((select has_foreign_data_wrapper_privilege(oid, 'USAGE') from pg_foreign_data_wrapper
           where fdwname = 'postgres_fdw'), false) as may_use_fdw,
       (select rolsuper from pg_roles where rolname = current_user) as is_superuser,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') as reads_stats,
       extract(epoch from clock_timestamp())::float8 as clock_seconds,
       quote_ident(current_database()) as database,
       quote_ident(current_user) as role

-- name: settings
select current_setting('constraint_exclusion') as constraint_exclusion, current_setting('wal_level') as wal_level,
       current_setting('jit')::boolean and pg_jit_available() as is_jit_on,
       current_setting('max_locks_per_transaction')::int as max_locks_per_transaction,
       current_setting('max_connections')::int as max_connections,
       current_setting('max_prepared_transactions')::int as max_prepared_transactions,
       current_setting('superuser_reserved_connections')::int as reserved_connections,
       array(select s.name from pg_settings s
              where s.name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout',
                               'transaction_timeout')
                and s.setting <> '0' order by s.name) as timeouts,
       quote_ident(current_database()) as database, quote_ident(current_user) as role

-- name: most_locks
-- A statement without a condition on the tier key locks every partition and every index of it.
select format('%I.%I', t.schema_name, t.table_name) as table, count(distinct p.relid) + count(i.indexrelid) as locks
  from thermocline.tables t cross join lateral pg_partition_tree(t.heap_oid) p
  left join pg_index i on i.indrelid = p.relid
 where exists (select from pg_class c where c.oid = t.heap_oid)
 group by t.id order by locks desc limit 1

-- name: missing_membership
select current_user::text, case when pg_has_role(current_user, n.nspowner, 'USAGE') then '{}'::text[]
           else array[format('GRANT %I TO %I;', pg_get_userbyid(n.nspowner), current_user)] end
  from pg_namespace n where n.nspname = 'thermocline'

-- name: missing_rights
-- The rights that the worker's role lacks, each as the statement that gives it. The role is that of the newest live
-- worker, or ours.
with me as (
    select coalesce((select a.usename from thermocline.workers w join pg_stat_activity a on a.pid = w.backend_pid
                      where a.application_name = 'thermocline worker' and a.datname = current_database()
                      order by w.seen_at desc limit 1), current_user) as role),
relations as (
    select t.schema_name, t.seam_schema, c.relowner from thermocline.tables t join pg_class c on c.oid = t.heap_oid
    union
    select n.nspname, t.seam_schema, c.relowner from thermocline.tables t join pg_inherits i on i.inhparent = t.heap_oid
      join pg_class c on c.oid = i.inhrelid join pg_namespace n on n.oid = c.relnamespace)
select (select m.role from me m)::text as role, array(
    select format('GRANT %I TO %I;', pg_get_userbyid(o.owner), m.role)
      from me m cross join (select n.nspowner as owner from pg_namespace n
                             where n.nspname in ('thermocline', 'thermocline_iceberg')
                            union select r.relowner from relations r) o
     where not pg_has_role(m.role, o.owner, 'USAGE')
    union all
    select format('GRANT USAGE, CREATE ON SCHEMA %I TO %I;', s.name, m.role)
      from me m cross join (select r.schema_name as name from relations r union select r.seam_schema from relations r
                            union values ('thermocline_delta'), ('thermocline_lake'), ('thermocline_fn')) s
     where to_regnamespace(quote_ident(s.name)) is not null
       and not (has_schema_privilege(m.role, s.name, 'USAGE') and has_schema_privilege(m.role, s.name, 'CREATE'))
    union all
    select format('GRANT USAGE ON FOREIGN SERVER %I TO %I;', s.srvname, m.role)
      from me m cross join pg_foreign_server s
     where s.srvname = 'thermocline_gateway' and not has_server_privilege(m.role, s.oid, 'USAGE')
    union all
    select format('GRANT pg_read_all_stats TO %I;', m.role) from me m
     where not pg_has_role(m.role, 'pg_read_all_stats', 'USAGE')
    order by 1) as statements

-- name: event_triggers
select count(*) filter (where evtenabled in ('O', 'A')) = 5 from pg_event_trigger
 where evtname in ('thermocline_alter_start', 'thermocline_alter_end', 'thermocline_type_end', 'thermocline_guard',
     'thermocline_partition_end')

-- name: uncaptured
-- The spill and the partitions below the cut-line, or on their way there, whose changes are not captured, or were not
-- for a time.
select format('%I.%I', t.schema_name, t.table_name) as "table", format('%I.%I', c.schema_name, c.name) as relation,
    thermocline.is_captured(c.relid) as is_captured
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
select (select count(*) from pg_replication_slots) as slots, current_setting('max_replication_slots')::int as max_slots,
       s.slot_name::text as abandoned, s.xmin is not null as holds_snapshot,
       pg_size_pretty(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
           else pg_current_wal_lsn() end, s.restart_lsn)) as kept_wal
  from (values (1)) one(n)
  left join lateral (select slot_name, xmin, restart_lsn from pg_replication_slots
                      where not active and (xmin is not null or restart_lsn is not null)
                      order by xmin is null, restart_lsn limit 1) s on true

-- name: unfinished_ops
select count(*) as ops, min(started_at) as oldest from thermocline.op_log
 where phase not in ('published', 'abandoned') and kind <> 'maintain' and changed_at < now() - interval '10 minutes'

-- name: unfollowed_grants
select format('%I.%I', t.schema_name, t.table_name) as table
  from thermocline.tables t
 where t.heap_grants is distinct from thermocline.grants_on(t.id, t.heap_oid)
   and thermocline.grants_on(t.id, t.heap_oid)
       is distinct from thermocline.grants_on(t.id, to_regclass(format('%I.%I', t.seam_schema, t.table_name)))
 order by 1
