create or replace view thermocline.silent_standbys as
select format('standby %s, which reports no snapshots', c.label) as what from thermocline.connected_standbys c
 where c.oldest is null
union all
select s.label from thermocline.noted_standbys s where s.is_away or s.oldest is null;
comment on view thermocline.silent_standbys is
    'Standbys that may hold snapshots nobody knows of: what was replaced'
    ' within the grace period stays for them.';
revoke all on thermocline.silent_standbys from public;
