-- What tells a stack that works from one that only runs: finished cycles, corrections that wait, ops by outcome.
alter table thermocline.workers
    add column started_at timestamptz not null default now(),
    add column cycle_started_at timestamptz,
    add column cycle_finished_at timestamptz,
    add column cycle_seconds double precision;
comment on column thermocline.workers.seen_at is 'Its last heartbeat, sent by a thread of its own while a cycle runs.';
comment on column thermocline.workers.cycle_started_at is 'When the cycle that runs began; null between two cycles.';
comment on column thermocline.workers.cycle_finished_at is 'When its last whole cycle over all tables ended.';

alter table thermocline.cycles
    add column finished bigint not null default 0,
    add column failed bigint not null default 0,
    add column failing_since timestamptz;
comment on column thermocline.cycles.failing_since is
    'When the first of its last cycles failed; null after a good one.';

create table thermocline.waiting_corrections (
    table_id bigint primary key references thermocline.tables on delete cascade,
    rows bigint not null,
    since timestamptz,
    last_version bigint,
    noted_at timestamptz not null default now(),
    check ((rows = 0) = (since is null)),
    check ((since is null) = (last_version is null))
);
comment on table thermocline.waiting_corrections is
    'Corrections below the cut-line that are not folded yet, as the last cycle counted them.';
comment on column thermocline.waiting_corrections.since is
    'Some correction that waited at this moment still waits; kept when a worker starts again.';
comment on column thermocline.waiting_corrections.last_version is
    'The newest version that waited at `since`: while one up to it waits, `since` stays.';

create table thermocline.op_totals (
    table_id bigint not null references thermocline.tables on delete cascade,
    kind text not null,
    published bigint not null default 0,
    abandoned bigint not null default 0,
    rows bigint not null default 0,
    bytes bigint not null default 0,
    primary key (table_id, kind)
);
comment on table thermocline.op_totals is
    'How many ops of each kind a table has had, and the rows and bytes they wrote; the journal itself is pruned.';
insert into thermocline.op_totals (table_id, kind, published, abandoned, rows, bytes)
select o.table_id, o.kind, count(*) filter (where o.phase = 'published'), count(*) filter (where o.phase = 'abandoned'),
       coalesce(sum((o.counters ->> 'rows')::bigint) filter (where o.phase = 'published'), 0),
       coalesce(sum((o.counters ->> 'bytes')::bigint) filter (where o.phase = 'published'), 0)
  from thermocline.op_log o
 where o.table_id is not null and o.phase in ('published', 'abandoned')
 group by o.table_id, o.kind;
