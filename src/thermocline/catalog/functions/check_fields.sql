-- Refuses fields that are no columns, and names a required one that is missing.
create or replace function thermocline.check_fields(verb text, heap regclass, fields jsonb, required text[])
    returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    culprit text;
begin
    if jsonb_typeof(fields) is distinct from 'object' then
        raise exception 'thermocline.% takes a JSON object', verb using errcode = 'invalid_parameter_value';
    end if;
    select f into culprit from jsonb_object_keys(fields) f
     where not exists (select from pg_attribute a
                        where a.attrelid = heap and a.attname = f and a.attnum > 0 and not a.attisdropped) limit 1;
    if found then
        raise exception 'column "%" of % does not exist', culprit, heap using errcode = 'undefined_column';
    end if;
    select r into culprit from unnest(required) r where not fields ? r limit 1;
    if found then
        raise exception 'thermocline.% on % needs the field "%"', verb, heap, culprit
            using errcode = 'not_null_violation', column = culprit;
    end if;
end $$;
