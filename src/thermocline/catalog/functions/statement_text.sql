-- The text of the running statement: the client's own, and that of every statement inside functions. Null where a part
-- of it cannot be read (a function in SQL).
create or replace function thermocline.statement_text(context text) returns text
    language sql stable set search_path = pg_catalog as $$
    select case when context !~ 'SQL function "' then concat_ws(e';\n', current_query(), context) end $$;
