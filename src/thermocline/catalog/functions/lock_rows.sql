create or replace function thermocline.lock_rows(target regclass, keys jsonb) returns setof text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    key jsonb;
    is_there boolean;
begin
    if jsonb_typeof(keys) = 'object' then keys := jsonb_build_array(keys); end if;
    if jsonb_typeof(keys) is distinct from 'array' then
        raise exception 'thermocline.lock_rows takes a key, or an array of keys'
            using errcode = 'invalid_parameter_value';
    end if;
    -- In one order for everybody, so that two who lock the same rows do not wait for each other.
    for key in select k from jsonb_array_elements(keys) k order by k loop
        perform thermocline.check_fields('lock_rows', spanning.heap, key, spanning.pk);
        execute format('select true from %s h where %s for update', spanning.heap,
                       thermocline.key_condition(spanning, key, 'h')) into is_there;
        if is_there then
            return next 'heap';
            continue;
        end if;
        perform thermocline.lock_key(spanning, key);
        execute format('select exists (select from %s s where %s)', spanning.seam,
                       thermocline.key_condition(spanning, key, 's')) into is_there;
        return next case when is_there then 'lake' end;
    end loop;
end $$;
comment on function thermocline.lock_rows(regclass, jsonb) is
    'Locks rows by their keys until the transaction ends, in whichever tier they are: heap or lake; null for a key'
    ' without a row.';
