create or replace function thermocline.delete(target regclass, key jsonb) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    is_hot boolean;
begin
    perform thermocline.check_fields('delete', spanning.heap, key, spanning.pk);
    if exists (select from jsonb_object_keys(key) f where not f = any (spanning.pk)) then
        raise exception 'thermocline.delete takes the key of %, (%), and nothing else',
            spanning.heap, array_to_string(spanning.pk, ', ')
            using errcode = 'invalid_parameter_value';
    end if;
    execute format('delete from %s s where %s'
                   ' returning thermocline.axis(s.%I) >= (select p.t from thermocline.spanning p where p.id = $1)',
                   spanning.seam, thermocline.key_condition(spanning, key, 's'), spanning.tier_key)
       into is_hot using spanning.id;
    return case when is_hot then 'hot' when not is_hot then 'delta' end;
end $$;
comment on function thermocline.delete(regclass, jsonb) is
    'Deletes the row with this key from whichever tier holds it: hot or delta; null when there is no such row.';

create or replace function thermocline.delete(target regclass, key jsonb, tier_key text) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    others text[] := array_remove(spanning.pk, spanning.tier_key);
begin
    if jsonb_typeof(key) is distinct from 'object' then
        if cardinality(others) <> 1 then
            raise exception 'the key of % has several fields, (%): thermocline.delete needs an object with all of them',
                spanning.heap, array_to_string(spanning.pk, ', ') using errcode = 'invalid_parameter_value';
        end if;
        key := jsonb_build_object(others[1], key);
    end if;
    return thermocline.delete(target, key || jsonb_build_object(spanning.tier_key, tier_key));
end $$;
comment on function thermocline.delete(regclass, jsonb, text) is
    'Deletes the row with this key and tier key; the key is a plain value where one field makes it up, else an object'
    ' with all its fields.';
