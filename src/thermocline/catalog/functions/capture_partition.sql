-- From now on every change of the partition is captured; what it holds becomes corrections, where readers below the
-- cut-line look for it. Rows below the retention line stay expired. How many rows it carried.
create or replace function thermocline.capture_partition(of_table bigint, relation oid) returns bigint
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    upper_end bigint;
begin
    select * into strict t from thermocline.tables where id = of_table;
    if thermocline.reads_old_snapshot() and pg_relation_size(relation) > 0 then
        raise exception '% cannot become a partition of %.% at isolation level %: rows that were committed to it since'
                        ' the transaction began would be missed',
            relation::regclass, t.schema_name, t.table_name, upper(current_setting('transaction_isolation'))
            using errcode = 'feature_not_supported', hint = 'Attach it in a transaction at READ COMMITTED.';
    end if;
    execute format('create or replace trigger thermocline_capture after insert or update or delete on %s for each row'
                   ' execute function thermocline_fn.%I()',
                   relation::regclass, t.object_name || '_capture');
    execute format('create or replace trigger thermocline_capture_truncate before truncate on %s for each statement'
                   ' execute function thermocline_fn.%I()',
                   relation::regclass, t.object_name || '_capture_truncate');
    execute format('alter table %s enable always trigger thermocline_capture, enable always trigger'
                   ' thermocline_capture_truncate', relation::regclass);
    upper_end := thermocline.upper_bound(relation, t.key_type);
    -- Read through the heap, for the partition may be another role's.
    return thermocline.run_as_owner(of_table, thermocline.render('capture_rows',
        thermocline.seam_parts(of_table, 0) || jsonb_build_object(
            'heap', t.heap_oid::regclass, 'partition', relation,
            'line', thermocline.key_literal(t.key_type, greatest(
                thermocline.lower_bound(relation, t.key_type),
                (select r.line from thermocline.retention r where r.table_id = of_table))),
            -- For the planner alone: the last position but one stands for thirty years.
            'and_below', case when upper_end < 9223372036854775806
                              then format(' and %I < %s', t.tier_key, thermocline.key_literal(t.key_type, upper_end))
                              else '' end)));
end $$;
revoke all on function thermocline.capture_partition(bigint, oid) from public;
