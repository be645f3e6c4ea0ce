create or replace view thermocline.live_snapshots as
select format('session %s (%s, %s)', a.pid, coalesce(a.usename, a.backend_type), coalesce(a.state, 'active')) as what,
       a.backend_xmin as oldest
  from pg_stat_activity a
 where a.backend_xmin is not null and a.pid <> pg_backend_pid()
   and (a.datname is null or a.datname = current_database())
union all
select format('replication slot %s', s.slot_name), s.xmin from pg_replication_slots s where s.xmin is not null
union all
select s.label, s.oldest from thermocline.noted_standbys s where s.oldest is not null;
comment on view thermocline.live_snapshots is 'Every snapshot that somebody holds, the caller apart.';
revoke all on thermocline.live_snapshots from public;
