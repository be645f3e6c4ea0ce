-- The tokens of a statement, which concatenated give the statement again: each quoted text or name, space and comment
-- is one token. Null where a quote cannot be parsed.
create or replace function thermocline.sql_pieces(statement text) returns text[]
    language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select case when statement ~ '\$[[:alpha:]_]\w*\$' then null else array(
        select m[1] from regexp_matches(statement,
            '([eE]''(?:[^''\\]|\\.|'''')*''|''(?:[^'']|'''')*''|"(?:[^"]|"")*"|\$\$(?:[^$]|\$(?!\$))*\$\$|--[^\n]*'
            '|/\*(?:[^*]|\*(?!/))*\*/|\s+|[0-9.]+(?:[eE][+-]?[0-9]+)?|[[:alpha:]_][\w$]*|.)',
            'g') with ordinality as w(m, place) order by place) end $$;
