-- Modes and options: keep-heap, retention, premake, pause, and what the last cycle of each table said.

alter table thermocline.tables
    add column keep_heap boolean not null default false,
    add column lake_retention bigint check (lake_retention > 0),
    add column partition_width bigint check (partition_width > 0),
    add column premake integer not null default 2 check (premake >= 0),
    add constraint keep_heap_deletes_nothing check (not keep_heap or lake_retention is null);
comment on column thermocline.tables.keep_heap is 'Partitions are copied to the lake and never dropped: the heap holds every row.';
comment on column thermocline.tables.lake_retention is 'How far below T the lake keeps rows, on the axis; null keeps them for ever.';
comment on column thermocline.tables.partition_width is 'The width of new partitions on the axis, when it was given; else it is read off the newest ones.';
comment on column thermocline.tables.premake is 'How many partitions above the newest row are kept ready; 0 makes none.';

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
