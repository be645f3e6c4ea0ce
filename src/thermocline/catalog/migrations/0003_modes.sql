-- Modes and options: keep-heap, retention, premake, pause, and what the last cycle of each table said.

alter table thermocline.tables
    add column keep_heap boolean not null default false,
    add column lake_retention bigint check (lake_retention > 0),
    add column partition_width bigint check (partition_width > 0),
    add column premake integer not null default 2 check (premake >= 0),
    add column accepted_t bigint,
    add column accepted_r bigint,
    add constraint keep_heap_deletes_nothing check (not keep_heap or lake_retention is null);
comment on column thermocline.tables.keep_heap is 'Partitions are copied to the lake and never dropped: the heap holds every row.';
comment on column thermocline.tables.lake_retention is 'How far below T the lake keeps rows, on the axis; null keeps them for ever.';
comment on column thermocline.tables.accepted_t is 'Rows up to this key are believed, however far they lie ahead: the operator said so.';
comment on column thermocline.tables.accepted_r is 'The retention line may go up to this at once: the operator said so.';
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

create table thermocline.retention (
    table_id bigint primary key references thermocline.tables on delete cascade,
    line bigint not null default -9223372036854775808,
    shared boolean
);
comment on table thermocline.retention is
    'The line below which writes are refused; raised before R. Writers of old rows hold a share lock on it; truncations move the row.';
create function thermocline.forbid_line_regression() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    if new.line < old.line then
        raise exception 'the retention line of table % cannot move back', old.table_id using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger forbid_regression before update on thermocline.retention
    for each row execute function thermocline.forbid_line_regression();
