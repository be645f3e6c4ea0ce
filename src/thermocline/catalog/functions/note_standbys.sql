create or replace function thermocline.note_standbys(grace_seconds double precision) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    -- Two sessions that look at once would wait for each other's rows in another order.
    perform pg_advisory_xact_lock(7461001916);
    update thermocline.standbys s set away_since = coalesce(s.away_since, now())
     where s.how_many > (select count(*) from thermocline.connected_standbys c
                          where (c.application_name, c.client_addr) = (s.application_name, s.client_addr)
                            and (c.oldest is not null or s.oldest is null));
    delete from thermocline.standbys s where s.away_since < now() - make_interval(secs => grace_seconds);
    insert into thermocline.standbys as s (application_name, client_addr, how_many, oldest)
    select c.application_name, c.client_addr, count(*),
           case when bool_and(c.oldest is not null) then (array_agg(c.oldest order by age(c.oldest) desc))[1] end
      from thermocline.connected_standbys c group by 1, 2
    on conflict (application_name, client_addr) do update
       set how_many = excluded.how_many, oldest = excluded.oldest, away_since = null
     where excluded.how_many >= s.how_many and (excluded.oldest is not null or s.oldest is null);
end $$;
revoke all on function thermocline.note_standbys(double precision) from public;
