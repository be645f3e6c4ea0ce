-- ON CONFLICT DO NOTHING without a target reaches a view's triggers unmarked: it is refused wherever the statement's
-- own text shows it. Strings and comments are taken out first; what is inside a function shows the statement that
-- called it, and is not seen.
create or replace function thermocline.shows_do_nothing(statement text, seam_schema text, seam_name text)
    returns boolean
    language sql immutable set search_path = pg_catalog as $$
    select statement ~* '\mconflict\M.*\mnothing\M' and
           regexp_replace(statement,
               '("(?:[^"]|"")*")|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/|'
               '\me''(?:[^''\\]|\\.|'''')*''|''(?:[^'']|'''')*''|\$\$(?:[^$]|\$[^$])*\$\$',
               '\1 ', 'gi')
           ~* format('\minsert\s+into\s+("?%s"?\s*\.\s*)?"?%s"?(?![\w.])'
                     '(?:(?!\minsert\M).)*\mon\s+conflict\s+do\s+nothing\M',
                     regexp_replace(replace(seam_schema, '"', '""'), '(\W)', '\\\1', 'g'),
                     regexp_replace(replace(seam_name, '"', '""'), '(\W)', '\\\1', 'g')) $$;
