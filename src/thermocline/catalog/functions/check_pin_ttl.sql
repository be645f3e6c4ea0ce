create or replace function thermocline.check_pin_ttl(ttl interval) returns void
    language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if ttl is null or ttl <= interval '0' or ttl > interval '7 days' then
        raise exception 'a pin lives longer than nothing and at most 7 days, not %', coalesce(ttl::text, 'null')
            using errcode = 'invalid_parameter_value',
            hint = 'Renew it with thermocline.renew_pin() while it is needed.';
    end if;
end $$;
