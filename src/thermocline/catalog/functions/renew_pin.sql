create or replace function thermocline.renew_pin(pin bigint, ttl interval default interval '15 minutes')
    returns timestamptz
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    found_pin thermocline.read_pins;
begin
    perform thermocline.check_pin_ttl(ttl);
    select * into found_pin from thermocline.read_pins p where p.id = pin for update;
    if not found or found_pin.expires_at <= clock_timestamp() then
        raise exception 'pin % is dead', pin using errcode = 'object_not_in_prerequisite_state',
            hint = 'What it protected may be gone; take a new one with thermocline.pin() and read again.';
    end if;
    perform thermocline.check_pin_holder(found_pin.holder, pin);
    update thermocline.read_pins p set expires_at = clock_timestamp() + ttl where p.id = pin returning p.expires_at
      into found_pin.expires_at;
    return found_pin.expires_at;
end $$;
comment on function thermocline.renew_pin(bigint, interval) is 'Keeps a living pin for another while; says until when.';
