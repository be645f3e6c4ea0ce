-- Postgres' plan of one statement under a search_path, not run. A cursor takes one statement only, so a text with
-- several is refused before any of them begins; and what planning itself might do (a function that lies about being
-- immutable) is kept from writing and rolled back, the search_path with it.
create or replace function thermocline.plan_of(statement text, path text) returns jsonb
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    plan json;
    planned refcursor;
    explained text := format('explain (verbose, %s format json) %s',
        case when statement ~ '\$[0-9]' and current_setting('server_version_num')::integer >= 160000
             then 'generic_plan,' else '' end, statement);
begin
    begin
        perform set_config('transaction_read_only', 'on', true), set_config('search_path', path, true);
        open planned no scroll for execute explained;
        fetch planned into plan;
        close planned;
        raise exception 'planned' using errcode = 'TCEXP';
    exception when sqlstate 'TCEXP' then
        return plan::jsonb;
    end;
end $$;
