-- The verb of a statement, and what Postgres can plan of it: a COPY has no plan, but its query has.
create or replace function thermocline.explainable(statement text, path text, out verb text, out query text,
                                                   out target regclass)
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    words text[] := thermocline.sql_words(statement);
    at integer := 3;
    name text;
begin
    verb := lower((regexp_match(statement, '^(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/|\()*([[:alpha:]]+)'))[1]);
    query := statement;
    if verb in ('values', 'table') then verb := 'select'; end if;
    if verb = 'copy' and words[2] = '(' then
        query := thermocline.in_parentheses(statement);
        verb := 'select';
    elsif verb = 'copy' then
        while words[at] = '.' loop at := at + 2; end loop;
        name := array_to_string(words[2:at - 1], '');
        perform set_config('search_path', path, true);
        target := name::pg_catalog.regclass;
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        if words[at] = '(' then at := at + array_position(words[at:], ')'); end if;
        verb := case lower(words[at]) when 'from' then 'copy from' when 'to' then 'copy to' else verb end;
        query := null;
    elsif verb is null or verb not in ('select', 'insert', 'update', 'delete', 'merge', 'with') then
        raise exception 'TC702: only SELECT, INSERT, UPDATE, DELETE, MERGE and COPY can be explained, not %',
            coalesce(upper(verb), 'nothing')
            using errcode = 'feature_not_supported';
    end if;
end $$;
