-- Who may still read what a publication replaced: declared once, for dropped partitions, purged corrections, expired snapshots and the seam's floor.

-- A standby reports its oldest snapshot only while it is connected. One that is away for a moment has readers all the same, so its last word
-- is kept for the grace period, counted from when its absence was first noticed.
create table thermocline.standbys (
    application_name text not null,
    client_addr text not null,
    how_many integer not null,
    oldest xid,
    away_since timestamptz,
    primary key (application_name, client_addr)
);
comment on table thermocline.standbys is 'Standbys as they were last seen; away_since is set while fewer are connected, or none has reported since.';

create view thermocline.connected_standbys as
select coalesce(r.application_name, '') as application_name, coalesce(host(r.client_addr), '') as client_addr, r.backend_xmin as oldest,
       coalesce(nullif(r.application_name, ''), host(r.client_addr), r.pid::text) as label
  from pg_stat_replication r
 where r.state <> 'backup' and not exists (select from pg_replication_slots s where s.active_pid = r.pid and (s.xmin is not null or s.slot_type = 'logical'));
comment on view thermocline.connected_standbys is 'Standbys whose snapshots no replication slot holds; without hot_standby_feedback they report none.';

create function thermocline.note_standbys(grace_seconds double precision) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    -- Two sessions that look at once would wait for each other's rows in another order.
    perform pg_advisory_xact_lock(7461001916);
    update thermocline.standbys s set away_since = coalesce(s.away_since, now())
     where s.how_many > (select count(*) from thermocline.connected_standbys c
                          where (c.application_name, c.client_addr) = (s.application_name, s.client_addr) and (c.oldest is not null or s.oldest is null));
    delete from thermocline.standbys s where s.away_since < now() - make_interval(secs => grace_seconds);
    insert into thermocline.standbys as s (application_name, client_addr, how_many, oldest)
    select c.application_name, c.client_addr, count(*),
           case when bool_and(c.oldest is not null) then (array_agg(c.oldest order by age(c.oldest) desc))[1] end
      from thermocline.connected_standbys c group by 1, 2
    on conflict (application_name, client_addr) do update set how_many = excluded.how_many, oldest = excluded.oldest, away_since = null
     where excluded.how_many >= s.how_many and (excluded.oldest is not null or s.oldest is null);
end $$;

-- Those that are connected too: one may leave between the note and the question.
create view thermocline.noted_standbys as
select format('standby %s%s', coalesce(nullif(s.application_name, ''), s.client_addr), ', which is away since ' || to_char(s.away_since, 'HH24:MI:SS')) as label,
       s.oldest, s.away_since is not null as is_away
  from thermocline.standbys s;

create view thermocline.live_snapshots as
select format('session %s (%s, %s)', a.pid, coalesce(a.usename, a.backend_type), coalesce(a.state, 'active')) as what, a.backend_xmin as oldest
  from pg_stat_activity a
 where a.backend_xmin is not null and a.pid <> pg_backend_pid() and (a.datname is null or a.datname = current_database())
union all
select format('replication slot %s', s.slot_name), s.xmin from pg_replication_slots s where s.xmin is not null
union all
select s.label, s.oldest from thermocline.noted_standbys s where s.oldest is not null;
comment on view thermocline.live_snapshots is 'Every snapshot that somebody holds, the caller apart.';

create view thermocline.silent_standbys as
select format('standby %s, which reports no snapshots', c.label) as what from thermocline.connected_standbys c where c.oldest is null
union all
select s.label from thermocline.noted_standbys s where s.is_away or s.oldest is null;
comment on view thermocline.silent_standbys is 'Standbys that may hold snapshots nobody knows of: what was replaced within the grace period stays for them.';
revoke all on thermocline.standbys, thermocline.connected_standbys, thermocline.noted_standbys, thermocline.live_snapshots, thermocline.silent_standbys from public;
revoke all on function thermocline.note_standbys(double precision) from public;
