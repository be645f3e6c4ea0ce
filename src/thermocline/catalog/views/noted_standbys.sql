-- Includes standbys that are connected: one may disconnect between the note and the query.
create or replace view thermocline.noted_standbys as
select format('standby %s%s', coalesce(nullif(s.application_name, ''), s.client_addr),
              ', which is away since ' || to_char(s.away_since, 'HH24:MI:SS')) as label,
       s.oldest, s.away_since is not null as is_away
  from thermocline.standbys s;
revoke all on thermocline.noted_standbys from public;
