-- Lifecycle: where lakes are made, lakes that an unregistration left, history on its way back into the heap, lakes nobody knows any more.

create table thermocline.storage_profiles (
    name text primary key check (name <> ''),
    warehouse text not null check (warehouse <> ''),
    is_default boolean not null default false,
    created_at timestamptz not null default now()
);
comment on table thermocline.storage_profiles is 'Named places for lake tables; the one flagged default is used when registration names none.';
create unique index storage_profiles_one_default on thermocline.storage_profiles (is_default) where is_default;

alter table thermocline.tables
    add column profile text references thermocline.storage_profiles,
    add column lake_until bigint;
comment on column thermocline.tables.profile is 'The storage profile the lake was made in; null for the warehouse of the settings.';
comment on column thermocline.tables.lake_until is
    'Of a lake that was taken up: below this the lake may hold rows of partitions that the heap still has. Null when the lake was made here.';

create table thermocline.kept_lakes (
    lake_uuid uuid primary key,
    lake_namespace text not null,
    lake_name text not null,
    lake_location text not null unique,
    schema_name text not null,
    table_name text not null,
    heap_oid oid not null,
    pk text[] not null,
    tier_key text not null,
    key_type text not null,
    lake_partition text not null,
    profile text references thermocline.storage_profiles,
    t bigint not null,
    s bigint not null,
    r bigint,
    columns jsonb not null,
    partitions jsonb not null,
    at timestamptz not null default now(),
    unique (lake_namespace, lake_name)
);
comment on table thermocline.kept_lakes is 'Lakes that an unregistration left, with what a later registration must know to take one up again.';
comment on column thermocline.kept_lakes.t is 'The lake holds every row below this, but for what the heap''s partitions below it were changed to since.';

-- The one answer to the question whether the heap holds a partition's range whole: only then a row that it lacks was deleted, and the heap may
-- be taken for the truth of the range. The partition is the very one that was copied; it was never out of the table and always captured since
-- it was sealed (its capture trigger is the one that sealed it); and it was not emptied: without keep-heap TRUNCATE leaves history behind.
-- Nor can a crash empty it: of an unlogged partition recovery leaves the file's number, the trigger and no row.
create view thermocline.partitions_in_heap as
select p.*, i.inhrelid is not null as is_attached,
       coalesce(p.state = 'tiered' and p.rows_in_lake is not null
                and (p.filled_xid = pg_current_xact_id_if_assigned()
                     or (i.inhrelid is not null and exists (select from pg_trigger g where g.oid = p.seal and g.tgrelid = p.relid)
                         and exists (select from pg_class c where c.oid = p.relid and c.relpersistence = 'p')
                         and (t.keep_heap or pg_relation_filenode(p.relid) = p.seal_file))), false) as is_whole
  from thermocline.partitions p
  join thermocline.tables t on t.id = p.table_id
  left join pg_inherits i on i.inhrelid = p.relid and i.inhparent = t.heap_oid and not i.inhdetachpending;
revoke all on thermocline.partitions_in_heap from public;
comment on view thermocline.partitions_in_heap is
    'Every partition with whether it is the heap''s now, and whether the heap holds its range whole, unbroken since its seal.';

create table thermocline.restored_ranges (
    table_id bigint not null references thermocline.tables on delete cascade,
    lo bigint not null,
    hi bigint not null check (lo < hi),
    snapshot_id bigint not null,
    schema_name text not null,
    name text not null,
    rows bigint not null,
    last_op uuid,
    schema_version integer not null,
    primary key (table_id, lo)
);
comment on table thermocline.restored_ranges is
    'History copied back from the lake, range by range, into tables that become partitions of the heap when it is unregistered.';

comment on column thermocline.restored_ranges.last_op is
    'The op that was published last when the range was read: after another one, even one that left the snapshot as it was, it is read again.';

create table thermocline.lake_leftovers (
    location text primary key,
    at timestamptz not null default now()
);
comment on table thermocline.lake_leftovers is
    'Directories of lake tables that are being made or were dropped: no catalog knows them, and the janitor removes them after the grace period.';

-- ON CONFLICT DO NOTHING without a target reaches a view's triggers unmarked: it is refused wherever the statement's own text shows it.
-- Strings and comments are taken out first; what is inside a function shows the statement that called it, and is not seen.
create function thermocline.shows_do_nothing(statement text, seam_schema text, seam_name text) returns boolean
    language sql immutable set search_path = pg_catalog as $$
    select statement ~* '\mconflict\M.*\mnothing\M' and
           regexp_replace(statement,
               '("(?:[^"]|"")*")|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/|\me''(?:[^''\\]|\\.|'''')*''|''(?:[^'']|'''')*''|\$\$(?:[^$]|\$[^$])*\$\$',
               '\1 ', 'gi')
           ~* format('\minsert\s+into\s+("?%s"?\s*\.\s*)?"?%s"?(?![\w.])(?:(?!\minsert\M).)*\mon\s+conflict\s+do\s+nothing\M',
                     regexp_replace(replace(seam_schema, '"', '""'), '(\W)', '\\\1', 'g'), regexp_replace(replace(seam_name, '"', '""'), '(\W)', '\\\1', 'g')) $$;

create function thermocline.refuse_do_nothing() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    if thermocline.shows_do_nothing(current_query(), tg_table_schema, tg_table_name) then
        raise exception 'ON CONFLICT does not work on the seam %.%', tg_table_schema, tg_table_name using errcode = 'feature_not_supported',
            hint = 'Insert into the table by its own name, or call thermocline.insert_if_absent() or thermocline.upsert().';
    end if;
    return null;
end $$;
