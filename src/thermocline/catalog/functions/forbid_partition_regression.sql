create or replace function thermocline.forbid_partition_regression() returns trigger
    language plpgsql set search_path = pg_catalog as $$
declare
    steps constant text[] := array['hot', 'sealing', 'tiering', 'tiered', 'dropped'];
begin
    if array_position(steps, new.state) < array_position(steps, old.state) then
        raise exception 'partition % cannot go from % back to %', old.name, old.state, new.state
            using errcode = 'check_violation';
    end if;
    if new.state = 'dropped' and old.state not in ('tiered', 'dropped') then
        raise exception 'partition % is %, and only a tiered one can be dropped', old.name, old.state
            using errcode = 'check_violation';
    end if;
    if new.state = 'dropped' then new.relid := 0; end if;
    new.changed_at := now();
    return new;
end $$;
