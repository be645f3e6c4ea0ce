create or replace view thermocline.connected_standbys as
select coalesce(r.application_name, '') as application_name, coalesce(host(r.client_addr), '') as client_addr,
       r.backend_xmin as oldest, coalesce(nullif(r.application_name, ''), host(r.client_addr), r.pid::text) as label
  from pg_stat_replication r
 where r.state <> 'backup'
   and not exists (select from pg_replication_slots s
                    where s.active_pid = r.pid and (s.xmin is not null or s.slot_type = 'logical'));
comment on view thermocline.connected_standbys is
    'Standbys whose snapshots no replication slot holds; without'
    ' hot_standby_feedback they report none.';
revoke all on thermocline.connected_standbys from public;
