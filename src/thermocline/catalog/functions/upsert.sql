create or replace function thermocline.upsert(target regclass, fields jsonb) returns text
    language sql volatile set search_path = pg_catalog, pg_temp as $$
    select thermocline.write_row('upsert', target, fields) $$;
comment on function thermocline.upsert(regclass, jsonb) is
    'Writes a whole row, in place of one with its key; fields left out take their defaults. Says where it went: hot or'
    ' delta.';
