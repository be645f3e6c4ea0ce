-- Functions for users, and what the seam's own functions call.

-- Whether a row version that we can see was made by this very transaction (a savepoint's included): everybody else's is finished.
create function thermocline.is_ours(made_by xid) returns boolean
    language plpgsql volatile strict set search_path = pg_catalog as $$
declare
    top bigint := pg_current_xact_id()::text::bigint;
    ahead bigint := (made_by::text::bigint - top) & 4294967295;
begin
    -- xmin has no epoch: it is the nearest transaction with these 32 bits. A savepoint's lies ahead of its transaction's.
    if ahead >= 2147483648 then ahead := ahead - 4294967296; end if;
    return coalesce(pg_xact_status((top + ahead)::text::xid8) = 'in progress', false);
exception when invalid_parameter_value then
    return false; -- so old that it was frozen
end $$;

-- Whether a row trigger of the user's may keep a row of this table, or of a partition of it, from being written.
create function thermocline.has_before_trigger(heap regclass) returns boolean
    language sql stable strict set search_path = pg_catalog as $$
    select exists (select from pg_trigger t where t.tgrelid in (select relid from pg_partition_tree(heap))
                      and not t.tgisinternal and t.tgtype & 3 = 3 and t.tgenabled <> 'D') $$;
