-- The catalog's foundation: registrations, the cut-line, partitions, the journal, staged files, logins of the gateway.

create schema if not exists thermocline_iceberg;
create schema if not exists thermocline_delta;
create schema if not exists thermocline_lake;
create schema if not exists thermocline_fn;

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
    unique (schema_name, table_name),
    unique (lake_namespace, lake_name),
    unique (lake_location)
);
comment on table thermocline.tables is 'One row per registered table; bound by name, with the OID checked at each cycle.';

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
    primary key (table_id, position),
    unique (table_id, name),
    unique (table_id, field_id)
);

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
    check (seam_line >= t),
    check (seam_floor <= t)
);
comment on column thermocline.cutline.t is 'Rows at or above T are read from the heap, rows below from the lake; on the 64-bit axis.';
comment on column thermocline.cutline.s is 'The published Iceberg snapshot; null while the lake holds nothing.';
comment on column thermocline.cutline.epoch is 'Raised by every publication that changes what a cold row reads as; writers compare it.';
comment on column thermocline.cutline.fence is 'The token of the writer that claimed the table last; publication checks it.';
comment on column thermocline.cutline.seam_line is 'The literal in the seam view; raised before T, so never below it.';
comment on column thermocline.cutline.seam_floor is
    'The literal in the view''s heap arm; raised after T, once no live snapshot sees an older one, so never above the T that a reader sees.';

create function thermocline.forbid_cutline_regression() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    if new.t < old.t or new.epoch < old.epoch or new.fence < old.fence or new.seam_line < old.seam_line
       or new.seam_floor < old.seam_floor or new.r < old.r
       or (new.s is null and old.s is not null) or (new.r is null and old.r is not null) then
        raise exception 'the cut-line of table % cannot move back', old.table_id using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger forbid_regression before update on thermocline.cutline
    for each row execute function thermocline.forbid_cutline_regression();

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
    check (lo < hi),
    check ((state = 'dropped') = (relid = 0))
);
-- A dropped partition has no relation: the number it had may be given to another one.
create unique index partitions_by_relation on thermocline.partitions (table_id, relid) where state <> 'dropped';
create index partitions_by_range on thermocline.partitions (table_id, lo);

comment on column thermocline.partitions.seal is
    'The capture trigger that sealed the partition. A partition that was detached and attached again has another: its changes were not captured in between.';
comment on column thermocline.partitions.seal_file is
    'The file that held the partition''s rows when it was sealed. TRUNCATE gives it another one, as does whatever else rewrites the table.';
comment on column thermocline.partitions.filled_xid is
    'The transaction that made the partition whole from lake and delta, while it unregisters the table: in it nobody else can write.';

create function thermocline.forbid_partition_regression() returns trigger
    language plpgsql set search_path = pg_catalog as $$
declare
    steps constant text[] := array['hot', 'sealing', 'tiering', 'tiered', 'dropped'];
begin
    if array_position(steps, new.state) < array_position(steps, old.state) then
        raise exception 'partition % cannot go from % back to %', old.name, old.state, new.state using errcode = 'check_violation';
    end if;
    if new.state = 'dropped' and old.state not in ('tiered', 'dropped') then
        raise exception 'partition % is %, and only a tiered one can be dropped', old.name, old.state using errcode = 'check_violation';
    end if;
    if new.state = 'dropped' then new.relid := 0; end if;
    new.changed_at := now();
    return new;
end $$;
create trigger forbid_regression before update on thermocline.partitions
    for each row execute function thermocline.forbid_partition_regression();

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
    table_id bigint not null references thermocline.tables on delete cascade,
    kind text not null,
    phase text not null check (phase in ('intent', 'written', 'committed', 'published', 'abandoned')),
    fence bigint not null,
    t bigint,
    base_snapshot bigint,
    result_snapshot bigint,
    counters jsonb not null default '{}',
    message text,
    worker text not null,
    started_at timestamptz not null default now(),
    changed_at timestamptz not null default now()
);
create index op_log_unfinished on thermocline.op_log (table_id) where phase not in ('published', 'abandoned');
create index op_log_by_table on thermocline.op_log (table_id, started_at desc);

create table thermocline.staged_files (
    path text primary key,
    table_id bigint not null,
    op_id uuid not null,
    state text not null default 'staged' check (state in ('staged', 'abandoned')),
    at timestamptz not null default now()
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
    verb text not null check (verb in ('tier')),
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

create sequence thermocline.delta_version;

-- The axis: each tier key as a 64-bit number, and back. Exact integer arithmetic; the ends stand for the infinities.
-- They name nothing in our schema: they are inlined with the rights of the reader, who may have none there.
-- Postgres' last thirty years (294247 to 294276) lie past 2^63 microseconds and share the place below the upper end.
create function thermocline.axis(smallint) returns bigint language sql immutable strict parallel safe as 'select $1::bigint';
create function thermocline.axis(integer) returns bigint language sql immutable strict parallel safe as 'select $1::bigint';
create function thermocline.axis(bigint) returns bigint language sql immutable strict parallel safe as 'select $1';
create function thermocline.axis(date) returns bigint language sql immutable strict parallel safe as
    $$select case when isfinite($1) then ($1 - date '1970-01-01')::bigint
                  when $1 < date '1970-01-01' then -9223372036854775808 else 9223372036854775807 end$$;
create function thermocline.axis(timestamp) returns bigint language sql immutable strict parallel safe as
    $$select case when isfinite($1) then least(extract(epoch from $1) * 1000000, 9223372036854775806)::bigint
                  when $1 < timestamp '1970-01-01' then -9223372036854775808 else 9223372036854775807 end$$;
create function thermocline.axis(timestamptz) returns bigint language sql immutable strict parallel safe as
    $$select case when isfinite($1) then least(extract(epoch from $1 at time zone 'UTC') * 1000000, 9223372036854775806)::bigint
                  when $1 < timestamptz '1970-01-01 00:00+00' then -9223372036854775808 else 9223372036854775807 end$$;
create function thermocline.key_date(bigint) returns date language sql immutable strict parallel safe as
    $$select case $1 when -9223372036854775808 then date '-infinity' when 9223372036854775807 then date 'infinity'
                  else date '1970-01-01' + $1::integer end$$;
create function thermocline.key_timestamp(bigint) returns timestamp language sql immutable strict parallel safe as
    $$select case $1 when -9223372036854775808 then timestamp '-infinity' when 9223372036854775807 then timestamp 'infinity'
                  else timestamp '1970-01-01' + make_interval(
                      days => (floor($1::numeric / 86400000000))::integer,
                      secs => mod(mod($1, 86400000000) + 86400000000, 86400000000)::double precision / 1000000) end$$;
create function thermocline.key_timestamptz(bigint) returns timestamptz language sql immutable strict parallel safe as
    $$select case $1 when -9223372036854775808 then timestamptz '-infinity' when 9223372036854775807 then timestamptz 'infinity'
                  else (timestamp '1970-01-01' + make_interval(
                      days => (floor($1::numeric / 86400000000))::integer,
                      secs => mod(mod($1, 86400000000) + 86400000000, 86400000000)::double precision / 1000000)) at time zone 'UTC' end$$;

-- Iceberg's JDBC catalog (schema version V1), shared by Spark and by us; the names and types are Iceberg's own.
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

-- Foreign columns of this type are never shipped by postgres_fdw: their conditions are Postgres' own to evaluate.
create domain thermocline.local_text as text;
