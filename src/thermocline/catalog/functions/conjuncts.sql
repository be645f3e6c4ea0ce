-- The parts of a condition as EXPLAIN writes it that all have to hold: `((a) AND (b))` gives a and b.
create or replace function thermocline.conjuncts(condition text) returns setof text
    language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    word text;
    depth integer := 0;
    part text := '';
    parts text[] := '{}';
    piece text;
begin
    for word in select m[1] from regexp_matches(condition, '(''(?:[^'']|'''')*''|"(?:[^"]|"")*"|\s+|\w+|.)', 'g') m loop
        if word = ')' then depth := depth - 1; end if;
        if depth = 1 and word = 'AND' then
            parts := parts || part;
            part := '';
        elsif not (depth = 0 and word in ('(', ')')) then
            part := part || word;
        end if;
        if word = '(' then depth := depth + 1; end if;
        -- Two conditions side by side at the outermost level, and no single pair of parentheses around them.
        if depth = 0 and word not in (')', '(') and word !~ '^\s+$' then return; end if;
    end loop;
    foreach piece in array parts || part loop
        piece := btrim(piece);
        return next case when piece ~ '^\(.*\)$' then substr(piece, 2, length(piece) - 2) else piece end;
    end loop;
end $$;
