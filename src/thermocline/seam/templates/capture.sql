-- name: capture
-- Thermocline {version}. Every change of a row in the spill or in a sealed partition becomes a correction, in the
-- writer's own transaction. Whatever the cut-line is: a correction at or above it is hidden, and sealing a partition
-- clears what is hidden in its range. Invariant: when a statement ends, the delta has the heap's own image of every key
-- that the statement touched, or a tombstone. OLD and NEW may be older than the row: triggers and functions of the
-- user's may have changed it again since, and such a nested change is captured before the one that set it off. That
-- capture left a row of this transaction in the delta: where there is one, the key is read from the heap as it is now;
-- where there is none, the image we were called with is the newest. Each change calls this function after it, so the
-- last call for a key leaves the last image of it, in whatever order triggers fire. The row is read through the heap,
-- for the partition may be another role's; the key has the tier key in it, so the planner opens the one partition.
declare
    changes_key boolean := tg_op operator(pg_catalog.=) 'UPDATE'
        and not pg_catalog.record_image_eq(row({old_key}), row({new_key}));
    came_from {key_type};
    held bigint;
begin
    {skip_folded}
    {refuse_detached}
    {refuse_unfollowed}
    if tg_op = 'DELETE' or changes_key then
        insert into {delta} as d ({columns}, _op, _version)
            values ({old_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 1, _version = excluded._version, _folded = null where {not_ours};
        if not found then
            execute pg_catalog.concat({image_head_literal}, ' ', {heap_oid}::pg_catalog.oid::pg_catalog.regclass, ' ',
                {image_tail_literal})
              using {old_key}, came_from;
            get diagnostics held = row_count;
            if held operator(pg_catalog.=) 0 then {write_tombstone} end if;
        end if;
    end if;
    if tg_op <> 'DELETE' then
        {refuse_expired}
        if changes_key then
            came_from := coalesce((select d._old_key from {delta} d where {d_is_old} and d._folded is null),
                old.{tier_key});
        end if;
        insert into {delta} as d ({columns}, _op, _version, _old_key)
        values ({new_columns}, 0, pg_catalog.nextval('thermocline.delta_version'), came_from)
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 0, _version = excluded._version, _folded = null,
                _old_key = coalesce(excluded._old_key, case when d._folded is null then d._old_key end)
                    where {not_ours};
        if not found then
            execute pg_catalog.concat({image_head_literal}, ' ', {heap_oid}::pg_catalog.oid::pg_catalog.regclass, ' ',
                {image_tail_literal})
              using {new_key}, came_from;
            get diagnostics held = row_count;
            if held operator(pg_catalog.=) 0 then
                insert into {delta} as d ({columns}, _op, _version)
                    values ({new_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
                on conflict ({key_columns}) do update
                    set {columns_from_excluded}, _op = 1, _version = pg_catalog.nextval('thermocline.delta_version'),
                        _folded = null;
            end if;
        end if;
    end if;
    return null;
end

-- name: not_ours
-- Whether the delta's row is older than this transaction (age() counts from its number; those of its savepoints are
-- higher). A row that may be ours takes the slower way.
            pg_catalog.age(d.xmin) operator(pg_catalog.>) 0

-- name: image_head
insert into {delta} as d ({columns}, _op, _version, _old_key)
        select {h_columns}, 0, pg_catalog.nextval('thermocline.delta_version'), {moved_from} from

-- name: image_tail
h where {h_is_key}
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 0, _version = pg_catalog.nextval('thermocline.delta_version'),
                _folded = null,
                _old_key = coalesce(excluded._old_key, case when d._folded is null then d._old_key end)

-- name: skip_folded
-- The one delete that is no correction is a publication's own, and that row by row. A fold marks a correction in the
-- statement that takes its row out of the spill, and only while it holds both rows locked and their images are equal;
-- a change of that row after that, in the same transaction, is captured and takes the mark off again. So a mark of this
-- transaction means that the deleted image is in the lake. A trigger of the user's may delete another row that the same
-- fold marked: its statement is one trigger deeper than the fold's own, and is captured. Only the heap's owner, as whom
-- this function runs, and the worker can write a mark. Rows below R have expired: the cut-line names the transaction
-- that removes them. This check comes first, because a fold deletes tens of thousands of rows while it holds the
-- publication's locks; comparing the images again would take half of its time.
    if tg_op = 'DELETE' and pg_catalog.pg_trigger_depth() operator(pg_catalog.=) 1
        and (exists (select 1 from {delta} d where {d_is_old} and d._op operator(pg_catalog.=) 0
                        and d._folded operator(pg_catalog.=) pg_catalog.pg_current_xact_id())
            or exists (select 1 from thermocline.cutline c
                        where c.table_id operator(pg_catalog.=) {table_id}
                            and c.folding_xid operator(pg_catalog.=) pg_catalog.pg_current_xact_id()
                            and thermocline.axis(old.{tier_key}) operator(pg_catalog.<) c.r))
    then
        return null;
    end if;

-- name: refuse_detached
-- Where event triggers may not be made, a detached table keeps its capture: what happens to its rows now must neither
-- become history nor pass unseen, for it may be attached again. The catalog is asked as it is, not as a snapshot saw
-- it.
    if pg_catalog.pg_partition_root(tg_relid) is distinct from {heap_oid}::pg_catalog.oid then
        if not exists (select 1 from pg_catalog.pg_partition_ancestors(tg_relid) a
            where a.relid operator(pg_catalog.=) {heap_oid}::pg_catalog.oid) then
            raise exception 'table "%" is no partition of {heap_text} any more, and would still write its history',
                tg_table_name
                using errcode = 'object_not_in_prerequisite_state',
                    hint = pg_catalog.format('DROP TRIGGER %I ON %I.%I and change it then.', tg_name, tg_table_schema,
                        tg_table_name);
        end if;
    end if;

-- name: refuse_unfollowed
-- A column this function does not know would be lost with the row.
    if (select h.relnatts from pg_catalog.pg_class h where h.oid operator(pg_catalog.=) {heap_oid}::pg_catalog.oid)
        operator(pg_catalog.<>) {heap_natts} then
        raise exception 'TC409: the columns of {heap_text} changed, and the change was not followed yet'
            using errcode = 'object_not_in_prerequisite_state',
            hint = 'The worker follows it in its next cycle, `thermocline tier` at once; then run the transaction'
                ' again.';
    end if;

-- name: refuse_expired
-- The share lock keeps the line where it is until this transaction ends; an older snapshot that cannot see it raised
-- fails to serialize.
        if thermocline.axis(new.{tier_key}) operator(pg_catalog.<) (select r.line from thermocline.retention r
             where r.table_id operator(pg_catalog.=) {table_id} for share) then
            raise exception '{tier_key_text} = % lies below the retention line % of {heap_text}: rows this old were'
                ' expired on purpose',
                new.{tier_key}, {line_of} using errcode = 'check_violation',
                hint = 'Raise the table''s lake retention before writing rows this old, or write them to another'
                    ' table.';
        end if;

-- name: write_tombstone
insert into {delta} as d ({columns}, _op, _version)
    values ({old_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 1, _version = pg_catalog.nextval('thermocline.delta_version'),
                _folded = null;

-- name: capture_rows
insert into {delta} ({columns}, _op, _version)
select {columns}, 0, pg_catalog.nextval('thermocline.delta_version') from {heap}
 where tableoid = {partition} and {tier_key} >= {line}{and_below}
on conflict ({key_columns}) do update set {columns_from_excluded}, _op = 0, _version = excluded._version, _folded = null
