-- The statement without each USING that only spells out the cast that Postgres makes by itself: ALTER COLUMN v TYPE
-- bigint USING v::bigint.
create or replace function thermocline.without_plain_using(statement text) returns text
    language plpgsql immutable set search_path = pg_catalog as $$
declare
    name constant text := '("(?:[^"]|"")+"|[\w$]+)';
    type constant text := '([\w ]+(?:\([\d, ]+\))?)';
    m text[];
begin
    for m in select x from regexp_matches(statement, concat('(\malter\s+(?:column\s+)?', name,
                                                            '\s+(?:set\s+data\s+)?type\s+', type,
                                                            '\s+using\s+', name, '\s*::\s*', type, ')\s*(?=[,;"'']|$)'),
                                                            'gi') x
    loop
        if thermocline.folded_name(m[2]) = thermocline.folded_name(m[4])
           and thermocline.folded_name(btrim(m[3])) = thermocline.folded_name(btrim(m[5])) then
            statement := replace(statement, m[1], 'alter');
        end if;
    end loop;
    return statement;
end $$;
