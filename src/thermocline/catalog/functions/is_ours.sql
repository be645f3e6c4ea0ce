-- Whether a row version that we can see was made by this very transaction (a savepoint's included): everybody else's is
-- finished.
create or replace function thermocline.is_ours(made_by xid) returns boolean
    language plpgsql volatile strict set search_path = pg_catalog as $$
declare
    top bigint := pg_current_xact_id()::text::bigint;
    ahead bigint := (made_by::text::bigint - top) & 4294967295;
begin
    -- xmin has no epoch: it is the nearest transaction with these 32 bits. A savepoint's lies ahead of its
    -- transaction's.
    if ahead >= 2147483648 then ahead := ahead - 4294967296; end if;
    return coalesce(pg_xact_status((top + ahead)::text::xid8) = 'in progress', false);
exception when invalid_parameter_value then
    return false; -- so old that it was frozen
end $$;
