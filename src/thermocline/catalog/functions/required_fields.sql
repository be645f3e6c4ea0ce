create or replace function thermocline.required_fields(heap regclass, key text[]) returns text[]
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(a.attname::text order by a.attnum), '{}') from pg_attribute a
     where a.attrelid = heap and a.attnum > 0 and not a.attisdropped and (a.attnotnull or a.attname = any (key))
       and not a.atthasdef and a.attidentity = '' and a.attgenerated = '' $$;
