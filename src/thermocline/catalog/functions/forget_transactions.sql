create or replace function thermocline.forget_transactions(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    update thermocline.cutline set folding_xid = null where table_id = of_table;
    update thermocline.published set published_xid = pg_current_xact_id(),
           superseded_xid = case when superseded_xid is not null then pg_current_xact_id() end
     where table_id = of_table;
    update thermocline.partitions set tiered_xid = pg_current_xact_id()
     where table_id = of_table and tiered_xid is not null;
    execute format('delete from thermocline_delta.%I where _folded is not null',
                   (select t.object_name from thermocline.tables t where t.id = of_table));
    update thermocline.op_log
       set published_xid = pg_current_xact_id(),
           purged_at = case when kind = 'fold' then coalesce(purged_at, now()) else purged_at end
     where table_id = of_table and published_xid is not null;
end $$;
revoke all on function thermocline.forget_transactions(bigint) from public;
