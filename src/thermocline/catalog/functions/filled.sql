-- A template with its {places} filled in, in one pass: what is filled in is never looked at again. Places without a
-- part stay.
create or replace function thermocline.filled(template text, parts jsonb) returns text
    language sql immutable set search_path = pg_catalog as $$
    select string_agg(coalesce(parts ->> substring(p.piece from '^\{([a-z_]+)\}'),
                               substring(p.piece from '^\{[a-z_]+\}'), '')
                      || regexp_replace(p.piece, '^\{[a-z_]+\}', ''), '' order by p.place)
      from unnest(string_to_array(regexp_replace(template, '(\{[a-z_]+\})', e'\x01\\1', 'g'), e'\x01'))
          with ordinality p(piece, place) $$;
