-- The tokens of a statement without space and comments.
create or replace function thermocline.sql_words(statement text) returns text[]
    language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select array_agg(w order by place) from unnest(thermocline.sql_pieces(statement)) with ordinality p(w, place)
     where w !~ '^(\s+|--.*|/\*.*)$' $$;
