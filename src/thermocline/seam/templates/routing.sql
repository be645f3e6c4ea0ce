-- name: statement_cut
-- Thermocline {version}. Notes the cut-line of the statement's own snapshot: this function is STABLE, so it sees what
-- the statement saw, while the volatile function that routes the row sees what was committed since.
begin
    perform pg_catalog.set_config('thermocline.statement_cut',
        (select pg_catalog.concat(c.t, ',', c.epoch) from thermocline.cutline c
            where c.table_id operator(pg_catalog.=) {table_id}), true);
    if tg_op = 'DELETE' then return old; end if;
    return new;
end

-- name: route_insert
-- Thermocline {version}. The heap routes: a recent row to its partition, a historical one to the spill, where every
-- constraint holds.
begin
    {refuse_renamed}
    {refuse_generated}
    {fill_identity}
    insert into {heap} ({writable}) overriding system value values ({new_writable}) returning {columns} into new;
    if not found then return null; end if;
    {narrate_insert}
    return new;
end

-- name: route_update
-- Thermocline {version}. A row the heap holds is updated there, whatever its age; a row only the lake holds gets its
-- new image in the heap's spill, and so a correction. Never on top of an image the statement did not see: that is a
-- serialization failure, not a lost update.
declare
    statement_t bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',',
        1)::bigint;
    statement_epoch bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',',
        2)::bigint;
    requested record;
    seen record;
    moves boolean;
begin
    {refuse_renamed}
    requested := new;
    {check_identity}
    {check_generated}
    moves := coalesce(not ({requested_is_old}), true);
    -- The heap's own index knows the hot keys and the spill's; a key that only the lake holds is looked up through the
    -- seam.
    if moves and thermocline.axis(requested.{tier_key}) operator(pg_catalog.<) statement_t then
        {refuse_existing}
    end if;
    update {heap} h set {set_from_requested}
     where {h_is_old} and {heap_reads_old}
    returning {h_columns} into new;
    if found then
        {narrate_update}
        return new;
    end if;
    {changed_meanwhile}
    -- Gone, and perhaps only moved to another key: the statement has to run again.
    if thermocline.axis(old.{tier_key}) operator(pg_catalog.>=) statement_t then {raise_conflict} end if;
    {changed_in_delta}
    if moves then
        {refuse_existing}
        insert into {heap} ({writable}) overriding system value values ({requested_writable})
        returning {columns} into new;
    else
        insert into {heap} ({writable}) overriding system value values ({requested_writable})
        on conflict ({key_columns}) do nothing returning {columns} into new;
    end if;
    if not found then
        -- A trigger of the user's returned NULL; else somebody wrote the row meanwhile.
        if thermocline.has_before_trigger({heap_literal}::pg_catalog.regclass)
            and not exists (select 1 from {heap} h where {h_is_old}) then
            return null;
        end if;
        {raise_conflict}
    end if;
    -- Under the key it has now, which a trigger of the user's may have chosen. Another may have put a row under the old
    -- key: that is captured.
    if not ({new_is_old}) then
        if not exists (select 1 from {heap} h where {h_is_old}) then {write_tombstone} end if;
        update {delta} d set _old_key = old.{tier_key} where {d_is_new} and d._folded is null;
    end if;
    {narrate_update}
    return new;
end

-- name: route_delete
-- Thermocline {version}. A row the heap holds is deleted there; a row only the lake holds gets a tombstone.
declare
    statement_t bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',',
        1)::bigint;
    statement_epoch bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',',
        2)::bigint;
    seen record;
begin
    {refuse_renamed}
    delete from {heap} h where {h_is_old} and {heap_reads_old};
    if found then
        {narrate_delete}
        return old;
    end if;
    {changed_meanwhile}
    if thermocline.axis(old.{tier_key}) operator(pg_catalog.>=) statement_t then return null; end if;
    {changed_in_delta}
    {write_tombstone}
    {narrate_delete}
    return old;
end

-- name: changed_meanwhile
select thermocline.is_ours(h.xmin) as ours, {heap_reads_old} as same
      into seen from {heap} h where {h_is_old};
    if found then
        -- The row is there as the statement saw it, and was not written: a trigger of the user's returned NULL.
        if seen.same and thermocline.has_before_trigger({heap_literal}::pg_catalog.regclass) then return null; end if;
        if seen.ours then {raise_twice} end if;
        {raise_conflict}
    end if;

-- name: changed_in_delta
perform pg_catalog.pg_advisory_xact_lock({key_lock});
    -- A truncation leaves no image to compare with, and moves this row: an older snapshot that cannot see it move fails
    -- to serialize.
    perform 1 from thermocline.retention r where r.table_id operator(pg_catalog.=) {table_id} for share;
    if exists (select 1 from {heap} h where {h_is_old})
       or (select c.epoch from thermocline.cutline c where c.table_id operator(pg_catalog.=) {table_id})
           operator(pg_catalog.<>) statement_epoch
    then {raise_conflict} end if;
    select d._op operator(pg_catalog.=) 1 as deleted, thermocline.is_ours(d.xmin) as ours,
           {delta_reads_old} as same
      into seen from {delta} d where {d_is_old};
    if found and (seen.deleted or not seen.same) then
        -- Deleted by this same statement, which meets the row again: once is enough.
        if seen.ours and seen.deleted then return null; end if;
        if seen.ours then {raise_twice} end if;
        {raise_conflict}
    end if;

-- name: heap_reads_old
(pg_catalog.record_image_eq(row({h_columns}), row({old_columns}))
    or thermocline.reads_same(row({h_columns}), row({old_columns})))

-- name: delta_reads_old
(pg_catalog.record_image_eq(row({d_columns}), row({old_columns}))
    or thermocline.reads_same(row({d_columns}), row({old_columns})))

-- name: refuse_existing
if exists (select 1 from {seam} s where {s_is_requested}) then
            raise exception 'duplicate key value violates unique constraint of {heap_text}'
                using errcode = 'unique_violation', detail = 'A row with the new key exists already.';
        end if;

-- name: refuse_renamed
-- The statements below name the heap; by that name another table may be meant by now.
    if pg_catalog.to_regclass({heap_literal}) is distinct from {heap_oid}::pg_catalog.oid then
        raise exception 'TC208: {heap_text} is not the table that was registered: it was renamed, moved or made anew'
            using errcode = 'object_not_in_prerequisite_state',
            hint = 'Give the registered table its name back, or unregister it.';
    end if;

-- name: raise_twice
raise exception 'the statement changes a row of {heap_text} a second time'
            using errcode = 'cardinality_violation', hint = 'Make the statement match each row once.';

-- name: raise_conflict
raise exception 'could not serialize access: a row of {heap_text} was changed by another session'
            using errcode = 'serialization_failure', hint = 'Run the transaction again.';

-- name: narrate_insert
if pg_catalog.current_setting('thermocline.explain', true) operator(pg_catalog.=) 'on' then
        raise notice 'thermocline: insert into {heap_text}, {tier_key_text} = %: %', new.{tier_key},
            case when new.{tier_key} operator(pg_catalog.>=) {cut} then 'hot, into the heap'
                else 'cold, into the spill and the delta' end;
    end if;

-- name: narrate_update
if pg_catalog.current_setting('thermocline.explain', true) operator(pg_catalog.=) 'on' then
        raise notice 'thermocline: update of {heap_text}, {tier_key_text} = %: from % to %', new.{tier_key},
            case when old.{tier_key} operator(pg_catalog.>=) {cut} then 'the heap' else 'the lake' end,
            case when new.{tier_key} operator(pg_catalog.>=) {cut} then 'the heap' else 'the spill and the delta' end;
    end if;

-- name: narrate_delete
if pg_catalog.current_setting('thermocline.explain', true) operator(pg_catalog.=) 'on' then
        raise notice 'thermocline: delete from {heap_text}, {tier_key_text} = %: %', old.{tier_key},
            case when old.{tier_key} operator(pg_catalog.>=) {cut} then 'hot, from the heap'
                else 'cold, a tombstone in the delta' end;
    end if;
