-- The tables as catalog version 13 left them; the migrations up to there were squashed. A database at version 13 is
-- taken as being here. Functions, triggers and views are in their own folders.

create schema if not exists thermocline_iceberg;
create schema if not exists thermocline_delta;
create schema if not exists thermocline_lake;
create schema if not exists thermocline_fn;
grant usage on schema thermocline to public;

create sequence thermocline.delta_version;

-- postgres_fdw never ships a condition on a foreign column of this type: Postgres evaluates it.
create domain thermocline.local_text as text;

create table thermocline.storage_profiles (
    name text primary key check (name <> ''),
    warehouse text not null check (warehouse <> ''),
    is_default boolean not null default false,
    created_at timestamptz not null default now()
);
comment on table thermocline.storage_profiles is
    'Named places for lake tables; the one flagged default is used when registration names none.';
create unique index storage_profiles_one_default on thermocline.storage_profiles (is_default) where is_default;

create table thermocline.lake_tables (
    id bigint generated always as identity primary key,
    catalog text not null default 'thermocline',
    namespace text not null,
    name text not null,
    format text not null default 'iceberg',
    maintenance_policy jsonb not null default '{}',
    added_at timestamptz not null default now(),
    unique (catalog, namespace, name)
);
comment on table thermocline.lake_tables is 'Lake tables under maintenance that are no tier of a Postgres table.';

create table thermocline.tables (
    id bigint generated always as identity primary key,
    schema_name text not null,
    table_name text not null,
    heap_oid oid not null,
    mode text not null check (mode in ('tiered')),
    pk text[] not null,
    tier_key text not null,
    key_type text not null,
    tiering_lag bigint not null default 0 check (tiering_lag >= 0),
    reclaim_lag bigint not null default 0 check (reclaim_lag >= 0),
    lake_partition text not null,
    lake_namespace text not null,
    lake_name text not null,
    lake_uuid uuid not null,
    lake_location text not null,
    seam_schema text not null,
    object_name text not null unique,
    spill_schema text not null,
    spill_name text not null,
    created_at timestamptz not null default now(),
    keep_heap boolean not null default false,
    lake_retention bigint check (lake_retention > 0),
    partition_width bigint check (partition_width > 0),
    premake integer not null default 2 check (premake >= 0),
    accepted_t bigint,
    accepted_r bigint,
    shape text,
    schema_version integer not null default 1,
    last_field_id integer not null default 0,
    lake_behind boolean not null default false,
    profile text references thermocline.storage_profiles,
    lake_until bigint,
    maintenance_policy jsonb not null default '{}',
    spill_capture_lost_at timestamptz,
    unique (schema_name, table_name),
    unique (lake_namespace, lake_name),
    unique (lake_location),
    constraint keep_heap_deletes_nothing check (not keep_heap or lake_retention is null)
);
comment on table thermocline.tables is
    'One row per registered table; bound by name, with the OID checked at each cycle.';
comment on column thermocline.tables.keep_heap is
    'Partitions are copied to the lake and never dropped: the heap holds every row.';
comment on column thermocline.tables.lake_retention is
    'How far below T the lake keeps rows, on the axis; null keeps them for ever.';
comment on column thermocline.tables.accepted_t is
    'Rows up to this key are believed, however far they lie ahead: the operator said so.';
comment on column thermocline.tables.accepted_r is
    'The retention line may go up to this at once: the operator said so.';
comment on column thermocline.tables.partition_width is
    'The width of new partitions on the axis, when it was given; else it is read off the newest ones.';
comment on column thermocline.tables.premake is
    'How many partitions above the newest row are kept ready; 0 makes none.';
comment on column thermocline.tables.shape is
    'The heap''s columns as the seam was built for them; another shape has to be followed.';
comment on column thermocline.tables.lake_behind is
    'The lake''s schema and the foreign table lag behind the columns; the next cycle brings them up.';
comment on column thermocline.tables.profile is
    'The storage profile the lake was made in; null for the warehouse of the settings.';
comment on column thermocline.tables.lake_until is
    'Of a lake that was taken up: below this the lake may hold rows of partitions that the heap still has. Null when '
    'the lake was made here.';
comment on column thermocline.tables.maintenance_policy is
    'The table''s own policy: checked when stored, so a pass can always run it.';
comment on column thermocline.tables.spill_capture_lost_at is
    'When the capture trigger of the spill was last seen disabled or gone; null again once every range was compared '
    'with the trigger firing.';

create table thermocline.columns (
    table_id bigint not null references thermocline.tables on delete cascade,
    position integer not null,
    name text not null,
    attnum smallint not null,
    base_type text not null,
    pg_type text not null,
    lake_type text not null,
    form text not null check (form in ('native', 'text')),
    field_id integer not null,
    required boolean not null,
    missing text,
    absent boolean not null default false,
    held_as text,
    expression text,
    expression_tree text,
    primary key (table_id, position),
    unique (table_id, field_id),
    unique (table_id, name) deferrable initially deferred
);
comment on column thermocline.columns.missing is
    'What rows written before the column existed read as, in Postgres'' text form; null is NULL.';
comment on column thermocline.columns.absent is
    'The lake''s schema has no such column yet: every lake row reads as `missing`.';
comment on column thermocline.columns.held_as is
    'The type the foreign table still has, while it is not the column''s own.';
comment on column thermocline.columns.expression is
    'Of a generated column, as values in the lake were computed by it; null for others.';
comment on column thermocline.columns.expression_tree is
    'The same as Postgres keeps it, by numbers: it stays while columns and functions are renamed, the text stays '
    'where a dump is restored.';

create table thermocline.cutline (
    table_id bigint primary key references thermocline.tables on delete cascade,
    t bigint not null,
    s bigint,
    f pg_lsn,
    r bigint,
    epoch bigint not null default 0,
    fence bigint not null default 0,
    seam_line bigint not null,
    seam_floor bigint not null default -9223372036854775808,
    folding_xid xid8,
    check (seam_line >= t),
    check (seam_floor <= t)
);
comment on column thermocline.cutline.t is
    'Rows at or above T are read from the heap, rows below from the lake; on the 64-bit axis.';
comment on column thermocline.cutline.s is 'The published Iceberg snapshot; null while the lake holds nothing.';
comment on column thermocline.cutline.epoch is
    'Raised by every publication that changes what a cold row reads as; writers compare it.';
comment on column thermocline.cutline.fence is
    'The token of the writer that claimed the table last; publication checks it.';
comment on column thermocline.cutline.seam_line is 'The literal in the seam view; raised before T, so never below it.';
comment on column thermocline.cutline.seam_floor is
    'The literal in the view''s heap arm; raised after T, once no live snapshot sees an older one, so never above '
    'the T that a reader sees.';
comment on column thermocline.cutline.folding_xid is
    'The transaction that published the last fold: what it deletes from the spill lies in the lake, so it is not '
    'captured as deleted.';

create table thermocline.partitions (
    table_id bigint not null references thermocline.tables on delete cascade,
    schema_name text not null,
    name text not null,
    relid oid not null,
    lo bigint not null,
    hi bigint not null,
    state text not null default 'hot' check (state in ('hot', 'sealing', 'tiering', 'tiered', 'dropped')),
    rows_in_lake bigint,
    tiered_xid xid8,
    seal oid,
    seal_file oid,
    filled_xid xid8,
    changed_at timestamptz not null default now(),
    capture_lost_at timestamptz,
    check (lo < hi),
    check ((state = 'dropped') = (relid = 0))
);
comment on column thermocline.partitions.seal is
    'The capture trigger that sealed the partition. A partition that was detached and attached again has another: '
    'its changes were not captured in between.';
comment on column thermocline.partitions.seal_file is
    'The file that held the partition''s rows when it was sealed. TRUNCATE gives it another one, as does whatever '
    'else rewrites the table.';
comment on column thermocline.partitions.filled_xid is
    'The transaction that made the partition whole from lake and delta, while it unregisters the table: in it nobody '
    'else can write.';
comment on column thermocline.partitions.capture_lost_at is
    'When its capture trigger was last seen disabled or gone; null again once both tiers were compared with the '
    'trigger firing.';
-- A dropped partition has no relation: Postgres may give its former OID to another one.
create unique index partitions_by_relation on thermocline.partitions (table_id, relid) where state <> 'dropped';
create index partitions_by_range on thermocline.partitions (table_id, lo);

create table thermocline.published (
    table_id bigint not null references thermocline.tables on delete cascade,
    snapshot_id bigint not null,
    published_xid xid8 not null default pg_current_xact_id(),
    superseded_xid xid8,
    op_id uuid,
    at timestamptz not null default now(),
    primary key (table_id, snapshot_id)
);

create table thermocline.op_log (
    op_id uuid primary key,
    table_id bigint references thermocline.tables on delete cascade,
    kind text not null,
    phase text not null check (phase in ('intent', 'written', 'committed', 'published', 'abandoned')),
    fence bigint not null default 0,
    t bigint,
    base_snapshot bigint,
    result_snapshot bigint,
    counters jsonb not null default '{}',
    message text,
    worker text not null,
    started_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    published_xid xid8,
    purged_at timestamptz,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    pass_id uuid,
    forced boolean not null default false,
    beside boolean not null default false,
    policy jsonb,
    bounds jsonb,
    outcomes jsonb,
    progress text,
    error text,
    ended_at timestamptz,
    constraint op_log_of_one_table check (num_nonnulls(table_id, lake_id) = 1)
);
comment on column thermocline.op_log.published_xid is
    'The transaction that published the op; a fold''s marks in the delta carry it.';
comment on column thermocline.op_log.purged_at is
    'When the marked rows of a fold left the delta, because nobody could miss them any more.';
comment on column thermocline.op_log.pass_id is 'The maintenance pass that an op belongs to.';
comment on column thermocline.op_log.beside is
    'A pass that compacts named partitions alone: others like it may run at the same time.';
comment on column thermocline.op_log.outcomes is 'A pass: what became of each operation, in order.';
create index op_log_unfinished on thermocline.op_log (table_id) where phase not in ('published', 'abandoned');
create index op_log_by_table on thermocline.op_log (table_id, started_at desc);
create index op_log_unpurged on thermocline.op_log (table_id)
    where kind = 'fold' and phase = 'published' and purged_at is null;
create index op_log_by_lake on thermocline.op_log (lake_id, started_at desc) where lake_id is not null;
create index op_log_passes on thermocline.op_log (started_at desc) where kind = 'maintain';

create table thermocline.staged_files (
    path text primary key,
    table_id bigint,
    op_id uuid not null,
    state text not null default 'staged' check (state in ('staged', 'abandoned')),
    at timestamptz not null default now(),
    lake_id bigint
);
create index staged_files_by_op on thermocline.staged_files (op_id);

create table thermocline.gateway_logins (
    name text primary key,
    verifier text not null
);
revoke all on thermocline.gateway_logins from public;

create table thermocline.workers (
    name text primary key,
    pid integer not null,
    host text not null,
    backend_pid integer not null,
    seen_at timestamptz not null default now()
);

create table thermocline.requests (
    id bigint generated always as identity primary key,
    table_id bigint not null references thermocline.tables on delete cascade,
    verb text not null check (verb ~ '^[a-z_]+$'),
    state text not null default 'pending' check (state in ('pending', 'running', 'done', 'failed')),
    worker text,
    progress text,
    result jsonb,
    created_at timestamptz not null default now(),
    finished_at timestamptz
);
create unique index requests_one_pending on thermocline.requests (table_id, verb) where state in ('pending', 'running');

create table thermocline.events (
    id bigint generated always as identity primary key,
    table_id bigint,
    at timestamptz not null default now(),
    action text not null,
    sentence text not null
);
create index events_by_table on thermocline.events (table_id, id desc);

-- Iceberg's JDBC catalog (schema version V1), which Spark and this program share. The names and types are Iceberg's.
create table thermocline_iceberg.iceberg_tables (
    catalog_name varchar(255) not null,
    table_namespace varchar(255) not null,
    table_name varchar(255) not null,
    metadata_location varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type varchar(5),
    primary key (catalog_name, table_namespace, table_name)
);

create table thermocline_iceberg.iceberg_namespace_properties (
    catalog_name varchar(255) not null,
    namespace varchar(255) not null,
    property_key varchar(255),
    property_value varchar(1000),
    primary key (catalog_name, namespace, property_key)
);

create table thermocline.paused (
    table_id bigint unique references thermocline.tables on delete cascade,
    at timestamptz not null default now(),
    by_role text not null default session_user
);
comment on table thermocline.paused is 'A row per paused table; one without a table pauses all of them.';
create unique index paused_all_once on thermocline.paused ((true)) where table_id is null;

create table thermocline.cycles (
    table_id bigint primary key references thermocline.tables on delete cascade,
    at timestamptz not null default now(),
    sentence text not null,
    problem_code text,
    deferred text[] not null default '{}',
    next_step text
);
comment on table thermocline.cycles is 'What the last cycle of each table said, what it put off and what comes next.';

create table thermocline.retention (
    table_id bigint primary key references thermocline.tables on delete cascade,
    line bigint not null default -9223372036854775808,
    shared boolean
);
comment on table thermocline.retention is
    'The line below which writes are refused; raised before R. Writers of old rows hold a share lock on it; '
    'truncations move the row.';

create table thermocline.templates (
    name text primary key,
    body text not null
);
comment on table thermocline.templates is
    'The seam''s statements with {places} to fill in, as the program that registered last carries them.';

create table thermocline.enum_labels (
    label_oid oid primary key,
    label text not null
);
comment on table thermocline.enum_labels is
    'The values of enums that registered tables use, as lake files spell them: a value that is renamed would not be '
    'read back.';

create table thermocline.type_shapes (
    type_oid oid primary key,
    shape text[] not null
);
comment on table thermocline.type_shapes is
    'Composites and domains that registered tables use, as they were when lake files may have been written: the '
    'values must still be read back.';

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
comment on table thermocline.kept_lakes is
    'Lakes that an unregistration left, with what a later registration must know to take one up again.';
comment on column thermocline.kept_lakes.t is
    'The lake holds every row below this, but for what the heap''s partitions below it were changed to since.';

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
    'History copied back from the lake, range by range, into tables that become partitions of the heap when it is '
    'unregistered.';
comment on column thermocline.restored_ranges.last_op is
    'The op that was published last when the range was read: after another one, even one that left the snapshot as '
    'it was, it is read again.';

create table thermocline.lake_leftovers (
    location text primary key,
    at timestamptz not null default now()
);
comment on table thermocline.lake_leftovers is
    'Directories of lake tables that are being made or were dropped: no catalog knows them, and the janitor removes '
    'them after the grace period.';

create table thermocline.read_pins (
    id bigint generated always as identity primary key,
    table_id bigint not null references thermocline.tables on delete cascade,
    snapshot_id bigint,
    metadata_location text,
    t bigint not null,
    holder text not null,
    pinned_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null
);
comment on table thermocline.read_pins is
    E'Published snapshots that readers outside Postgres read. Until expires_at nothing they reach is '
    'deleted; folding and tiering go on. Who\n'
    'deletes must look at the live snapshots first and then read the pins under a SHARE lock on this '
    'table: a pin that is not committed yet is\n'
    'waited for, and a reader whose transaction is over has committed its pin.';
comment on column thermocline.read_pins.snapshot_id is 'The published snapshot; null when the lake held nothing.';
comment on column thermocline.read_pins.t is
    'Rows at or above this the reader takes from the heap: partitions that reach above it are not dropped.';
comment on column thermocline.read_pins.metadata_location is 'The lake table''s metadata file at that time.';
create index read_pins_by_table on thermocline.read_pins (table_id);
create index read_pins_by_expiry on thermocline.read_pins (expires_at);

create table thermocline.swept_pins (
    table_id bigint primary key references thermocline.tables on delete cascade,
    pins bigint not null
);
comment on table thermocline.swept_pins is
    'How many pins of each table were found dead and removed, not released by their holder.';

create table thermocline.verified (
    table_id bigint not null references thermocline.tables on delete cascade,
    lo bigint not null,
    hi bigint not null,
    range text not null,
    at timestamptz not null default now(),
    drift_rows bigint not null,
    problem text,
    primary key (table_id, lo)
);
comment on table thermocline.verified is
    'What the background verifier found, range by range: rows that differ between the tiers.';

-- Where each kind of statement goes, by mode and side of T. The rows come from `core/modes/routing.py`.
create table thermocline.routes (
    operation text not null,
    mode text not null,
    side text not null check (side in ('recent', 'historical')),
    path text not null,
    sentence text not null,
    primary key (operation, mode, side)
);
grant select on thermocline.routes to public;

create table thermocline.format_operations (
    format text not null,
    operation text not null,
    place bigint not null,
    primary key (format, operation)
);
comment on table thermocline.format_operations is
    'The operations of each format that tables have, in the order they run.';
insert into thermocline.format_operations (format, operation, place)
select 'iceberg', operation, place
  from unnest(array['convert_deletes', 'compact', 'rewrite_position_delete_files', 'rewrite_manifests',
                    'expire_snapshots', 'remove_orphans', 'prune_metadata']) with ordinality as o(operation, place);

create table thermocline.maintenance_policies (
    catalog text not null default 'thermocline',
    namespace text not null default '',
    policy jsonb not null default '{}',
    changed_at timestamptz not null default now(),
    primary key (catalog, namespace)
);
comment on table thermocline.maintenance_policies is
    'Policies of a namespace, or of the whole catalog (namespace empty).';

create table thermocline.maintenance_requests (
    id bigint generated always as identity primary key,
    table_id bigint references thermocline.tables on delete cascade,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    wish jsonb not null default '{}',
    state text not null default 'pending' check (state in ('pending', 'running', 'done', 'failed')),
    worker text,
    progress text,
    result jsonb,
    by_role text not null default session_user,
    created_at timestamptz not null default now(),
    refreshed_at timestamptz not null default now(),
    finished_at timestamptz,
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.maintenance_requests is 'Forced passes; one pending per table.';
create unique index maintenance_requests_one_per_table on thermocline.maintenance_requests (table_id)
    where state = 'pending';
create unique index maintenance_requests_one_per_lake on thermocline.maintenance_requests (lake_id)
    where state = 'pending';

create table thermocline.maintenance_schedule (
    table_id bigint unique references thermocline.tables on delete cascade,
    lake_id bigint unique references thermocline.lake_tables on delete cascade,
    next_at timestamptz not null,
    state text,
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.maintenance_schedule is
    'When each table''s next pass is due; whoever raises next_at runs it.';
comment on column thermocline.maintenance_schedule.state is 'Why the last pass paused, and when it goes on.';

create table thermocline.lake_stats (
    id bigint generated always as identity primary key,
    table_id bigint references thermocline.tables on delete cascade,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    metadata_location text,
    at timestamptz not null default now(),
    checked_at timestamptz not null default now(),
    stats jsonb not null,
    warnings jsonb not null default '[]',
    policy jsonb not null default '{}',
    problem text,
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.lake_stats is
    'The lake''s health: a row per table and metadata version that was looked at; the newest is in force.';
create index lake_stats_by_table on thermocline.lake_stats (table_id, at desc);
create index lake_stats_by_lake on thermocline.lake_stats (lake_id, at desc);

create table thermocline.doomed_files (
    path text primary key,
    table_id bigint references thermocline.tables on delete cascade,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    size_bytes bigint not null default 0,
    at timestamptz not null default now(),
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.doomed_files is
    'Files of snapshots that are being expired: written down before the commit that lets go of them, so that a '
    'killed pass leaves no waste.';
create index doomed_files_by_table on thermocline.doomed_files (table_id, lake_id);

create table thermocline.quarantined_files (
    kept_at text primary key,
    path text not null,
    table_id bigint references thermocline.tables on delete cascade,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    size_bytes bigint not null default 0,
    until timestamptz not null,
    is_moved boolean not null default false,
    is_wanted boolean not null default false,
    at timestamptz not null default now(),
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.quarantined_files is
    'Orphans that were moved aside; they come back by `thermocline lake restore` until they are deleted.';
comment on column thermocline.quarantined_files.is_moved is 'False while the file may still be where it was.';
comment on column thermocline.quarantined_files.is_wanted is
    'A restore was asked for and is not finished: the file is not deleted, whatever its time.';

create table thermocline.sweeps (
    table_id bigint unique references thermocline.tables on delete cascade,
    lake_id bigint unique references thermocline.lake_tables on delete cascade,
    root text not null,
    after_folder text not null,
    listed bigint not null,
    at timestamptz not null default now(),
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.sweeps is
    'How far the listing of an orphan sweep has come; one that is cut off goes on from there.';

create table thermocline.sweep_candidates (
    path text not null,
    table_id bigint references thermocline.tables on delete cascade,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    size_bytes bigint not null,
    modified timestamptz,
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.sweep_candidates is
    'Old files that nothing named when they were listed. They are judged again before any of them is deleted.';
create index sweep_candidates_by_table on thermocline.sweep_candidates (table_id, lake_id);

-- The database that the lake belongs to. A copy (a restored dump, a database made from this one as template) names the
-- same files. Whatever it rewrote, expired or swept would be lost for the original, so a copy changes no lake until
-- somebody claims it.
create table thermocline.home (
    only_one boolean primary key default true check (only_one),
    system_identifier bigint,
    database_oid oid not null,
    catalog_oid oid not null,
    lakes_checked timestamptz,
    since timestamptz not null default now()
);
comment on table thermocline.home is
    'The cluster and the database whose registrations these are, noted with the first of them.';
comment on column thermocline.home.catalog_oid is
    'Of thermocline.tables: a database made as TEMPLATE keeps it, a restored dump does not.';
comment on column thermocline.home.lakes_checked is
    'The start of the Postgres under which every lake was compared with the journal: a restore to an earlier moment '
    'starts another one.';

-- A standby reports its oldest snapshot only while it is connected. One that is disconnected for a moment still has
-- readers, so its last report is kept for the grace period, counted from when its absence was first noticed.
create table thermocline.standbys (
    application_name text not null,
    client_addr text not null,
    how_many integer not null,
    oldest xid,
    away_since timestamptz,
    primary key (application_name, client_addr)
);
comment on table thermocline.standbys is
    'Standbys as they were last seen; away_since is set while fewer are connected, or none has reported since.';
revoke all on thermocline.standbys from public;
