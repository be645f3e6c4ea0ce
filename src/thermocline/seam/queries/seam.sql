-- name: delta
create table {delta} ({typed_columns},
    _op smallint not null check (_op in (0, 1)),
    _version bigint not null,
    _folded xid8,
    _old_key {old_key_type},
    primary key ({delta_key})) with (fillfactor = 50)

-- name: unused_domains
select y.typname from pg_type y
 where y.typnamespace = 'thermocline_lake'::regnamespace and y.typtype = 'd'
   and not exists (select from pg_attribute a where a.atttypid = y.oid and not a.attisdropped)

-- name: spill
create table {spill} partition of {heap} default

-- name: foreign_table
create foreign table {lake} ({foreign_columns}, _snapshot bigint)
    server thermocline_gateway options (schema_name {lake_schema}, table_name {lake_table})

-- name: seam
create or replace view {seam} as
select {heap_columns}
  from {heap} h
 where {above_floor}h.{tier_key} >= {cut}
union all
select {lake_columns}
  from {lake} l
 where l.{tier_key} < {line}
   and l._snapshot = (select c.s from thermocline.cutline c where c.table_id = {table_id})
   -- `or (select false)` changes nothing; without it the planner, who cannot see through these conditions, believes in a sixth of the rows.
   and ((l.{tier_key} < {cut} and not exists (select 1 from {delta} d where {lake_is_corrected} and d._folded is null offset 0))
        or (select false))
union all
select {delta_columns}
  from {delta} d
 where d._op = 0
   and d._folded is null
   and d.{tier_key} < {line}
   and d.{tier_key} < {cut}

-- name: capture
-- Thermocline {version}. Every change of a row in the spill or in a sealed partition becomes a correction, in the writer's own transaction.
-- Whatever the cut-line is: a correction at or above it is hidden, and sealing a partition clears what is hidden in its range.
-- Invariant: when a statement ends, the delta has the heap's own image of every key that the statement touched, or a tombstone.
-- OLD and NEW may be older than the row: triggers and functions of the user's may have changed it again since, and such a nested change is
-- captured before the one that set it off. That capture left a row of this transaction in the delta: where there is one, the key is read from
-- the heap as it is now; where there is none, the image we were called with is the newest. Each change calls this function after it, so the
-- last call for a key leaves the last image of it, in whatever order triggers fire. The row is read through the heap, for the partition may be
-- another role's; the key has the tier key in it, so the planner opens the one partition.
declare
    changes_key boolean := tg_op operator(pg_catalog.=) 'UPDATE' and not pg_catalog.record_image_eq(row({old_key}), row({new_key}));
    came_from {key_type};
    held bigint;
begin
    {refuse_detached}
    {refuse_unfollowed}
    {skip_folded}
    if tg_op = 'DELETE' or changes_key then
        insert into {delta} as d ({columns}, _op, _version) values ({old_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 1, _version = excluded._version, _folded = null where {not_ours};
        if not found then
            execute pg_catalog.concat({image_head}, ' ', {heap_oid}::pg_catalog.oid::pg_catalog.regclass, ' ', {image_tail})
              using {old_key}, came_from;
            get diagnostics held = row_count;
            if held operator(pg_catalog.=) 0 then {write_tombstone} end if;
        end if;
    end if;
    if tg_op <> 'DELETE' then
        {refuse_expired}
        if changes_key then
            came_from := coalesce((select d._old_key from {delta} d where {delta_is_old} and d._folded is null), old.{tier_key});
        end if;
        insert into {delta} as d ({columns}, _op, _version, _old_key)
        values ({new_columns}, 0, pg_catalog.nextval('thermocline.delta_version'), came_from)
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 0, _version = excluded._version, _folded = null,
                _old_key = coalesce(excluded._old_key, case when d._folded is null then d._old_key end) where {not_ours};
        if not found then
            execute pg_catalog.concat({image_head}, ' ', {heap_oid}::pg_catalog.oid::pg_catalog.regclass, ' ', {image_tail})
              using {new_key}, came_from;
            get diagnostics held = row_count;
            if held operator(pg_catalog.=) 0 then
                insert into {delta} as d ({columns}, _op, _version) values ({new_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
                on conflict ({key_columns}) do update
                    set {columns_from_excluded}, _op = 1, _version = pg_catalog.nextval('thermocline.delta_version'), _folded = null;
            end if;
        end if;
    end if;
    return null;
end

-- name: not_ours
-- Whether the delta's row is older than this transaction (age() counts from its number; those of its savepoints are higher). A row that may be
-- ours takes the slower way.
            pg_catalog.age(d.xmin) operator(pg_catalog.>) 0

-- name: image_head
insert into {delta} as d ({columns}, _op, _version, _old_key)
        select {h_columns}, 0, pg_catalog.nextval('thermocline.delta_version'), {moved_from} from

-- name: image_tail
h where {heap_is_key}
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 0, _version = pg_catalog.nextval('thermocline.delta_version'), _folded = null,
                _old_key = coalesce(excluded._old_key, case when d._folded is null then d._old_key end)

-- name: skip_folded
-- The one delete that is no correction is a publication's own, and that row by row: a fold marked this very image in the delta before it took
-- it out of the spill, and rows below R have expired. What a trigger of the user's does in that transaction is captured like anything else.
-- Only whoever may publish can write that transaction's number into the cut-line, so nobody else can keep a delete from being captured.
    if tg_op = 'DELETE' and exists (
        select 1 from thermocline.cutline c
         where c.table_id operator(pg_catalog.=) {table_id} and c.folding_xid operator(pg_catalog.=) pg_catalog.pg_current_xact_id()
           and (thermocline.axis(old.{tier_key}) operator(pg_catalog.<) c.r
                or exists (select 1 from {delta} d where {delta_is_old} and d._op operator(pg_catalog.=) 0
                              and d._folded operator(pg_catalog.=) c.folding_xid
                              and pg_catalog.record_image_eq(row({d_columns}), row({old_columns})))))
    then
        return null;
    end if;

-- name: refuse_detached
-- Where event triggers may not be made, a detached table keeps its capture: what happens to its rows now must neither become history nor
-- pass unseen, for it may be attached again. The catalog is asked as it is, not as a snapshot saw it.
    if pg_catalog.pg_partition_root(tg_relid) is distinct from {heap_oid}::pg_catalog.oid then
        if not exists (select 1 from pg_catalog.pg_partition_ancestors(tg_relid) a where a.relid operator(pg_catalog.=) {heap_oid}::pg_catalog.oid) then
            raise exception 'table "%" is no partition of {heap_text} any more, and would still write its history', tg_table_name
                using errcode = 'object_not_in_prerequisite_state', hint = pg_catalog.format('DROP TRIGGER %I ON %I.%I and change it then.', tg_name, tg_table_schema, tg_table_name);
        end if;
    end if;

-- name: refuse_renamed
-- The statements below name the heap; by that name another table may be meant by now.
    if pg_catalog.to_regclass({heap_literal}) is distinct from {heap_oid}::pg_catalog.oid then
        raise exception '{heap_text} is not the table that was registered: it was renamed, moved or made anew' using errcode = 'object_not_in_prerequisite_state',
            hint = 'Give the registered table its name back, or unregister it.';
    end if;

-- name: refuse_unfollowed
-- A column this function does not know would be lost with the row.
    if (select h.relnatts from pg_catalog.pg_class h where h.oid operator(pg_catalog.=) {heap_oid}::pg_catalog.oid) operator(pg_catalog.<>) {heap_natts} then
        raise exception 'the columns of {heap_text} changed, and the change was not followed yet' using errcode = 'object_not_in_prerequisite_state',
            hint = 'The worker follows it in its next cycle, `thermocline tier` at once; then run the transaction again.';
    end if;

-- name: refuse_expired
-- The share lock keeps the line where it is until this transaction ends; an older snapshot that cannot see it raised fails to serialize.
        if thermocline.axis(new.{tier_key}) operator(pg_catalog.<) (select r.line from thermocline.retention r
             where r.table_id operator(pg_catalog.=) {table_id} for share) then
            raise exception '{tier_key_text} = % lies below the retention line % of {heap_text}: rows this old were expired on purpose',
                new.{tier_key}, {line_of} using errcode = 'check_violation',
                hint = 'Raise the table''s lake retention before writing rows this old, or write them to another table.';
        end if;

-- name: statement_cut
-- Thermocline {version}. Notes the cut-line of the statement's own snapshot: this function is STABLE, so it sees what the statement saw,
-- while the volatile function that routes the row sees what was committed since.
begin
    perform pg_catalog.set_config('thermocline.statement_cut',
        (select pg_catalog.concat(c.t, ',', c.epoch) from thermocline.cutline c where c.table_id operator(pg_catalog.=) {table_id}), true);
    if tg_op = 'DELETE' then return old; end if;
    return new;
end

-- name: route_insert
-- Thermocline {version}. The heap routes: a recent row to its partition, a historical one to the spill, where every constraint holds.
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
-- Thermocline {version}. A row the heap holds is updated there, whatever its age; a row only the lake holds gets its new image in the heap's
-- spill, and so a correction. Never on top of an image the statement did not see: that is a serialization failure, not a lost update.
declare
    statement_t bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 1)::bigint;
    statement_epoch bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 2)::bigint;
    wished record;
    seen record;
    moves boolean;
begin
    {refuse_renamed}
    wished := new;
    {check_identity}
    {check_generated}
    moves := coalesce(not ({wished_is_old}), true);
    -- The heap's own index knows the hot keys and the spill's; a key that only the lake holds is looked up through the seam.
    if moves and thermocline.axis(wished.{tier_key}) operator(pg_catalog.<) statement_t then {refuse_existing} end if;
    update {heap} h set {set_from_new}
     where {heap_is_old} and {heap_reads_old}
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
        insert into {heap} ({writable}) overriding system value values ({wished_writable}) returning {columns} into new;
    else
        insert into {heap} ({writable}) overriding system value values ({wished_writable})
        on conflict ({key_columns}) do nothing returning {columns} into new;
    end if;
    if not found then
        -- A trigger of the user's said no; else somebody wrote the row meanwhile.
        if thermocline.has_before_trigger({heap_literal}::pg_catalog.regclass) and not exists (select 1 from {heap} h where {heap_is_old}) then
            return null;
        end if;
        {raise_conflict}
    end if;
    -- Under the key it has now, which a trigger of the user's may have chosen. Another may have put a row under the old key: that is captured.
    if not ({new_is_old}) then
        if not exists (select 1 from {heap} h where {heap_is_old}) then {write_tombstone} end if;
        update {delta} d set _old_key = old.{tier_key} where {delta_is_new} and d._folded is null;
    end if;
    {narrate_update}
    return new;
end

-- name: route_delete
-- Thermocline {version}. A row the heap holds is deleted there; a row only the lake holds gets a tombstone.
declare
    statement_t bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 1)::bigint;
    statement_epoch bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 2)::bigint;
    seen record;
begin
    {refuse_renamed}
    delete from {heap} h where {heap_is_old} and {heap_reads_old};
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
      into seen from {heap} h where {heap_is_old};
    if found then
        -- The row is there as the statement saw it, and was not written: a trigger of the user's said no.
        if seen.same and thermocline.has_before_trigger({heap_literal}::pg_catalog.regclass) then return null; end if;
        if seen.ours then {raise_twice} end if;
        {raise_conflict}
    end if;

-- name: changed_in_delta
perform pg_catalog.pg_advisory_xact_lock({key_lock});
    -- A truncation leaves no image to compare with, and moves this row: an older snapshot that cannot see it move fails to serialize.
    perform 1 from thermocline.retention r where r.table_id operator(pg_catalog.=) {table_id} for share;
    if exists (select 1 from {heap} h where {heap_is_old})
       or (select c.epoch from thermocline.cutline c where c.table_id operator(pg_catalog.=) {table_id}) operator(pg_catalog.<>) statement_epoch
    then {raise_conflict} end if;
    select d._op operator(pg_catalog.=) 1 as deleted, thermocline.is_ours(d.xmin) as ours,
           {delta_reads_old} as same
      into seen from {delta} d where {delta_is_old};
    if found and (seen.deleted or not seen.same) then
        -- Deleted by this same statement, which meets the row again: once is enough.
        if seen.ours and seen.deleted then return null; end if;
        if seen.ours then {raise_twice} end if;
        {raise_conflict}
    end if;

-- name: heap_reads_old
(pg_catalog.record_image_eq(row({h_columns}), row({old_columns})) or thermocline.reads_same(row({h_columns}), row({old_columns})))

-- name: delta_reads_old
(pg_catalog.record_image_eq(row({d_columns}), row({old_columns})) or thermocline.reads_same(row({d_columns}), row({old_columns})))

-- name: refuse_existing
if exists (select 1 from {seam} s where {seam_is_wished}) then
            raise exception 'duplicate key value violates unique constraint of {heap_text}'
                using errcode = 'unique_violation', detail = 'A row with the new key exists already.';
        end if;

-- name: raise_twice
raise exception 'the statement changes a row of {heap_text} a second time'
            using errcode = 'cardinality_violation', hint = 'Make the statement match each row once.';

-- name: narrate_insert
if pg_catalog.current_setting('thermocline.explain', true) operator(pg_catalog.=) 'on' then
        raise notice 'thermocline: insert into {heap_text}, {tier_key_text} = %: %', new.{tier_key},
            case when new.{tier_key} operator(pg_catalog.>=) {cut} then 'hot, into the heap' else 'cold, into the spill and the delta' end;
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
            case when old.{tier_key} operator(pg_catalog.>=) {cut} then 'hot, from the heap' else 'cold, a tombstone in the delta' end;
    end if;

-- name: write_tombstone
insert into {delta} as d ({columns}, _op, _version) values ({old_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 1, _version = pg_catalog.nextval('thermocline.delta_version'), _folded = null;

-- name: raise_conflict
raise exception 'could not serialize access: a row of {heap_text} was changed by another session'
            using errcode = 'serialization_failure', hint = 'Run the transaction again.';
