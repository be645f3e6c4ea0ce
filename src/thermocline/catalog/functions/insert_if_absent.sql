create or replace function thermocline.insert_if_absent(target regclass, fields jsonb) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    is_there boolean;
    went text;
begin
    perform thermocline.check_fields('insert_if_absent', spanning.heap, fields, spanning.pk);
    execute format('select exists (select from %s s where %s)', spanning.seam,
                   thermocline.key_condition(spanning, fields, 's')) into is_there;
    if is_there then return null; end if;
    went := thermocline.write_row('insert_if_absent', target, fields);
    -- A fold between the look and the write may have carried the same key from the spill into the lake.
    if went = 'delta'
       and (select p.s from thermocline.spanning p where p.id = spanning.id) is distinct from spanning.s then
        raise exception 'could not serialize access: the lake changed while a row of % was looked up', spanning.heap
            using errcode = 'serialization_failure', hint = 'Run the transaction again.';
    end if;
    return went;
end $$;
comment on function thermocline.insert_if_absent(regclass, jsonb) is
    'Writes a row unless either tier holds its key. Says where it went, hot or delta; null when the key was there.';
