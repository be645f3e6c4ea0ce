-- A template of `thermocline.templates` with every {place} filled, by the rule of seam/render.py: a part wins; else the
-- template of that name, rendered by the same rule; `{x_literal}` is template x, rendered, as a string literal. Parts
-- are never scanned for places, so a column may be called `{heap}`. A place that nothing fills is an error.
create or replace function thermocline.render(template text, parts jsonb) returns text
    language plpgsql stable set search_path = pg_catalog as $$
declare
    body text := (select t.body from thermocline.templates t where t.name = template);
    rendered text := '';
    piece text;
    place text;
begin
    if body is null then
        raise exception 'nothing fills the place {%} of a template', template using errcode = 'internal_error';
    end if;
    foreach piece in array string_to_array(regexp_replace(body, '(\{[a-z_]+\})', e'\x01\\1', 'g'), e'\x01')
    loop
        place := substring(piece from '^\{([a-z_]+)\}');
        if place is not null then
            piece := substr(piece, length(place) + 3);
            rendered := rendered || case
                when parts ->> place is not null then parts ->> place
                when place like '%\_literal' then quote_literal(thermocline.render(left(place, -8), parts))
                else thermocline.render(place, parts) end;
        end if;
        rendered := rendered || piece;
    end loop;
    return rendered;
end $$;
