-- Maintenance: policies, lake tables that Postgres does not know, passes in the journal, forced passes, the schedule, lake health.

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

create table thermocline.format_operations (
    format text not null,
    operation text not null,
    place bigint not null,
    primary key (format, operation)
);
comment on table thermocline.format_operations is 'The operations of each format that tables have, in the order they run.';
insert into thermocline.format_operations (format, operation, place)
select 'iceberg', operation, place
  from unnest(array['convert_deletes', 'compact', 'rewrite_position_delete_files', 'rewrite_manifests', 'expire_snapshots', 'remove_orphans',
                    'prune_metadata']) with ordinality as o(operation, place);

alter table thermocline.tables add column maintenance_policy jsonb not null default '{}';
comment on column thermocline.tables.maintenance_policy is 'The table''s own policy: checked when stored, so a pass can always run it.';

create table thermocline.maintenance_policies (
    catalog text not null default 'thermocline',
    namespace text not null default '',
    policy jsonb not null default '{}',
    changed_at timestamptz not null default now(),
    primary key (catalog, namespace)
);
comment on table thermocline.maintenance_policies is 'Policies of a namespace, or of the whole catalog (namespace empty).';

-- An op of a lake table has no Postgres table, no fence and no T.
alter table thermocline.op_log
    alter column table_id drop not null,
    alter column fence set default 0,
    add column lake_id bigint references thermocline.lake_tables on delete cascade,
    add column pass_id uuid,
    add column forced boolean not null default false,
    add column beside boolean not null default false,
    add column policy jsonb,
    add column bounds jsonb,
    add column outcomes jsonb,
    add column progress text,
    add column error text,
    add column ended_at timestamptz,
    add constraint op_log_of_one_table check (num_nonnulls(table_id, lake_id) = 1);
comment on column thermocline.op_log.pass_id is 'The maintenance pass that an op belongs to.';
comment on column thermocline.op_log.beside is 'A pass that compacts named partitions alone: others like it may run at the same time.';
comment on column thermocline.op_log.outcomes is 'A pass: what became of each operation, in order.';
create index op_log_by_lake on thermocline.op_log (lake_id, started_at desc) where lake_id is not null;
create index op_log_passes on thermocline.op_log (started_at desc) where kind = 'maintain';

alter table thermocline.staged_files alter column table_id drop not null, add column lake_id bigint;

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
create unique index maintenance_requests_one_per_table on thermocline.maintenance_requests (table_id) where state = 'pending';
create unique index maintenance_requests_one_per_lake on thermocline.maintenance_requests (lake_id) where state = 'pending';

create table thermocline.maintenance_schedule (
    table_id bigint unique references thermocline.tables on delete cascade,
    lake_id bigint unique references thermocline.lake_tables on delete cascade,
    next_at timestamptz not null,
    state text,
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.maintenance_schedule is 'When each table''s next pass is due; whoever raises next_at runs it.';
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
create index lake_stats_by_table on thermocline.lake_stats (table_id, at desc);
create index lake_stats_by_lake on thermocline.lake_stats (lake_id, at desc);
comment on table thermocline.lake_stats is 'The lake''s health: a row per table and metadata version that was looked at; the newest is in force.';

create view thermocline.maintained as
    select t.id as table_id, null::bigint as lake_id, 'thermocline'::text as catalog, t.lake_namespace as namespace, t.lake_name as name,
           t.schema_name, t.table_name, t.maintenance_policy, 'iceberg'::text as format
      from thermocline.tables t
    union all
    select null, l.id, l.catalog, l.namespace, l.name, null, null, l.maintenance_policy, l.format from thermocline.lake_tables l
     -- One that was added, then registered, has readers in Postgres: passes that do not know them must not touch it.
     where not exists (select from thermocline.tables t where (t.lake_namespace, t.lake_name) = (l.namespace, l.name));
comment on view thermocline.maintained is 'Every table whose lake is looked after: registered ones and those added by `thermocline lake add`.';

create view thermocline.maintenance_status as
    with ran as (
        select distinct on (o.table_id, o.lake_id, r.operation)
               o.table_id, o.lake_id, r.operation, r.status, r.sentence, coalesce(o.ended_at, o.changed_at) as at, o.op_id
          from thermocline.op_log o
          cross join lateral jsonb_to_recordset(o.outcomes) as r(operation text, status text, sentence text)
         where o.kind = 'maintain'
         order by o.table_id, o.lake_id, r.operation, o.started_at desc)
    select m.table_id, m.lake_id, m.namespace, m.name, p.operation,
           case when r.status is null then 'not yet run'
                when r.status in ('done', 'skipped') then 'successful'
                else r.status end as status,
           r.at, r.sentence as message, r.op_id as pass_id, p.place
      from thermocline.maintained m
      join thermocline.format_operations p on p.format = m.format
      left join ran r on r.table_id is not distinct from m.table_id and r.lake_id is not distinct from m.lake_id and r.operation = p.operation;
comment on view thermocline.maintenance_status is 'The last status of each operation on each table: not yet run, successful, failed, disabled, paused.';
