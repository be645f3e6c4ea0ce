-- name: tombstones_head
insert into {delta} as d ({columns}, _op, _version) select {columns}, 1,
    pg_catalog.nextval('thermocline.delta_version') from only

-- name: tombstones_tail
h where {kept} on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 1, _version = pg_catalog.nextval('thermocline.delta_version'),
                _folded = null

-- name: capture_truncate
-- Thermocline {version}. TRUNCATE fires no row trigger: what it removes from a sealed partition or from the spill
-- becomes tombstones here. Where partitions leave the heap, only for rows the heap still answers for; older ones are
-- history, and stay.
begin
    {refuse_detached}
    {refuse_unfollowed}
    -- Postgres removes every row, and an older snapshot shows only some of them: the others would stay in the lake.
    if pg_catalog.current_setting('transaction_isolation')
        operator(pg_catalog.=) any (array['repeatable read', 'serializable'])
       and pg_catalog.pg_relation_size(tg_relid) operator(pg_catalog.>) 0 then
        raise exception 'TRUNCATE of {heap_text} does not work at isolation level %: rows of "%" that were'
            ' committed since the transaction began would stay in the lake',
            pg_catalog.upper(pg_catalog.current_setting('transaction_isolation')), tg_table_name
            using errcode = 'feature_not_supported',
                hint = 'TRUNCATE it in a transaction at READ COMMITTED, or DELETE the rows.';
    end if;
    execute pg_catalog.concat({tombstones_head_literal}, ' ',
        pg_catalog.format('%I.%I', tg_table_schema, tg_table_name), ' ', {tombstones_tail_literal})
      using (select c.t from thermocline.cutline c where c.table_id operator(pg_catalog.=) {table_id});
    return null;
end

-- name: truncate_notice
-- Thermocline {version}. The heap alone is emptied; say so.
begin
    if exists (select 1 from thermocline.cutline c where c.table_id operator(pg_catalog.=) {table_id}
        and c.s is not null) then
        raise notice 'TRUNCATE removed the rows of {heap_text} that Postgres holds; the history below % remains in'
            ' the lake', {cut}
            using hint = '`thermocline truncate` removes the rows of both tiers, DELETE on {seam_text} those that'
                ' it names.';
    end if;
    return null;
end
