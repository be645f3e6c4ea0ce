-- What stands in the first pair of parentheses.
create or replace function thermocline.in_parentheses(statement text) returns text
    language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    piece text;
    depth integer := 0;
    inner_text text := '';
begin
    foreach piece in array coalesce(thermocline.sql_pieces(statement), '{}') loop
        if piece = ')' then depth := depth - 1; end if;
        exit when depth = 0 and piece = ')';
        if depth > 0 then inner_text := inner_text || piece; end if;
        if piece = '(' then depth := depth + 1; end if;
    end loop;
    return inner_text;
end $$;
