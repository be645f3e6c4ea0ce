-- Postgres' plan of one statement, which is not run. A cursor takes one statement only, so a text with several is
-- refused before any of them begins; and what planning itself might do (a function that lies about being immutable) is
-- kept from writing and rolled back.
create or replace function thermocline.plan_of(statement text) returns jsonb
    language plpgsql volatile as $$
declare
    plan json;
    planned refcursor;
    options text := '(verbose, format json)';
begin
    if statement ~ '\$[0-9]' and current_setting('server_version_num')::integer >= 160000 then
        options := '(verbose, generic_plan, format json)';
    end if;
    begin
        perform pg_catalog.set_config('transaction_read_only', 'on', true);
        open planned no scroll for execute 'explain ' || options || ' ' || statement;
        fetch planned into plan;
        close planned;
        raise exception 'planned' using errcode = 'TCEXP';
    exception when sqlstate 'TCEXP' then
        return plan::jsonb;
    end;
end $$;
