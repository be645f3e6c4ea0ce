-- name: delta
create table {delta} ({typed_columns},
    _op smallint not null check (_op in (0, 1)),
    _version bigint not null,
    _folded xid8,
    primary key ({delta_key}))

-- name: spill
create table {spill} partition of {heap} default

-- name: foreign_table
create foreign table {lake} ({foreign_columns}, _snapshot bigint)
    server thermocline_gateway options (schema_name {lake_schema}, table_name {lake_table})

-- name: seam
create or replace view {seam} as
select {heap_columns}
  from {heap} h
 where h.{tier_key} >= {cut}
union all
select {lake_columns}
  from {lake} l
 where l.{tier_key} < {line}
   and l.{tier_key} < {cut}
   and l._snapshot = (select c.s from thermocline.cutline c where c.table_id = {table_id})
   and not exists (select 1 from {delta} d where {lake_is_corrected} and d._folded is null offset 0)
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
begin
    if tg_op <> 'INSERT' and (tg_op = 'DELETE' or not pg_catalog.record_image_eq(row({old_key}), row({new_key}))) then
        insert into {delta} as d ({columns}, _op, _version) values ({old_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 1, _version = pg_catalog.nextval('thermocline.delta_version'), _folded = null;
    end if;
    if tg_op <> 'DELETE' then
        insert into {delta} as d ({columns}, _op, _version) values ({new_columns}, 0, pg_catalog.nextval('thermocline.delta_version'))
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 0, _version = pg_catalog.nextval('thermocline.delta_version'), _folded = null;
    end if;
    return null;
end

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
    {fill_identity}
    insert into {heap} ({writable}) overriding system value values ({new_writable}) returning {columns} into new;
    if not found then return null; end if;
    return new;
end

-- name: route_update
-- Thermocline {version}. A row the heap holds is updated there, whatever its age; a row only the lake holds gets its new image in the heap's
-- spill, and so a correction. Never on top of an image the statement did not see: that is a serialization failure, not a lost update.
declare
    statement_t bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 1)::bigint;
    statement_epoch bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 2)::bigint;
    wished record;
begin
    wished := new;
    {check_identity}
    update {heap} h set {set_from_new}
     where {heap_is_old} and pg_catalog.record_image_eq(row({h_columns}), row({old_columns}))
    returning {h_columns} into new;
    if found then return new; end if;
    {conflict_or_gone}
    if not pg_catalog.record_image_eq(row({old_key}), row({wished_key})) then
        if exists (select 1 from {seam} s where {seam_is_wished}) then
            raise exception 'duplicate key value violates unique constraint of {heap_text}'
                using errcode = 'unique_violation', detail = 'A row with the new key exists already.';
        end if;
        {write_tombstone}
        insert into {heap} ({writable}) overriding system value values ({wished_writable}) returning {columns} into new;
    else
        insert into {heap} ({writable}) overriding system value values ({wished_writable})
        on conflict ({key_columns}) do nothing returning {columns} into new;
        if not found then {raise_conflict} end if;
    end if;
    return new;
end

-- name: route_delete
-- Thermocline {version}. A row the heap holds is deleted there; a row only the lake holds gets a tombstone.
declare
    statement_t bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 1)::bigint;
    statement_epoch bigint := pg_catalog.split_part(pg_catalog.current_setting('thermocline.statement_cut'), ',', 2)::bigint;
begin
    delete from {heap} h where {heap_is_old} and pg_catalog.record_image_eq(row({h_columns}), row({old_columns}));
    if found then return old; end if;
    {conflict_or_gone}
    {write_tombstone}
    return old;
end

-- name: conflict_or_gone
if exists (select 1 from {heap} h where {heap_is_old}) then {raise_conflict} end if;
    if thermocline.axis(old.{tier_key}) operator(pg_catalog.>=) statement_t then return null; end if;
    perform pg_catalog.pg_advisory_xact_lock({key_lock});
    if exists (select 1 from {heap} h where {heap_is_old})
       or exists (select 1 from {delta} d where {delta_is_old}
                   and (d._op operator(pg_catalog.=) 1 or not pg_catalog.record_image_eq(row({d_columns}), row({old_columns}))))
       or (select c.epoch from thermocline.cutline c where c.table_id operator(pg_catalog.=) {table_id}) operator(pg_catalog.<>) statement_epoch
    then {raise_conflict} end if;

-- name: write_tombstone
insert into {delta} as d ({columns}, _op, _version) values ({old_columns}, 1, pg_catalog.nextval('thermocline.delta_version'))
        on conflict ({key_columns}) do update
            set {columns_from_excluded}, _op = 1, _version = pg_catalog.nextval('thermocline.delta_version'), _folded = null;

-- name: raise_conflict
raise exception 'could not serialize access: a row of {heap_text} was changed by another session'
            using errcode = 'serialization_failure', hint = 'Run the transaction again.';
