-- Whoever may delete pins in the table itself is an operator.
create or replace function thermocline.check_pin_holder(holder text, pin bigint) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if thermocline.calling_role() <> holder
        and not has_table_privilege(thermocline.calling_role(), 'thermocline.read_pins', 'delete') then
        raise exception 'TC701: pin % is held by role "%"', pin, holder
            using errcode = 'insufficient_privilege', hint = 'Only its holder or an operator renews or releases a pin.';
    end if;
end $$;
