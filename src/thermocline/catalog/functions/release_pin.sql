create or replace function thermocline.release_pin(pin bigint) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    found_holder text;
begin
    select p.holder into found_holder from thermocline.read_pins p where p.id = pin for update;
    if not found then return false; end if;
    perform thermocline.check_pin_holder(found_holder, pin);
    delete from thermocline.read_pins p where p.id = pin;
    return true;
end $$;
comment on function thermocline.release_pin(bigint) is 'Gives a pin back; false when it was gone already.';
