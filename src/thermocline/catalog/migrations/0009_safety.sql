-- What deletes files: the files it is about to delete, and those it moved aside.

create table thermocline.doomed_files (
    path text primary key,
    table_id bigint references thermocline.tables on delete cascade,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    size_bytes bigint not null default 0,
    at timestamptz not null default now(),
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.doomed_files is
    'Files of snapshots that are being expired: written down before the commit that lets go of them, so that a killed pass leaves no waste.';
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
comment on column thermocline.quarantined_files.is_moved is 'False while the file may still be where it was.';
comment on column thermocline.quarantined_files.is_wanted is 'A restore was asked for and is not finished: the file is not deleted, whatever its time.';
comment on table thermocline.quarantined_files is 'Orphans that were moved aside; they come back by `thermocline lake restore` until they are deleted.';

create table thermocline.sweeps (
    table_id bigint unique references thermocline.tables on delete cascade,
    lake_id bigint unique references thermocline.lake_tables on delete cascade,
    root text not null,
    after_folder text not null,
    listed bigint not null,
    at timestamptz not null default now(),
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.sweeps is 'How far the listing of an orphan sweep has come; one that is cut off goes on from there.';

create table thermocline.sweep_candidates (
    path text not null,
    table_id bigint references thermocline.tables on delete cascade,
    lake_id bigint references thermocline.lake_tables on delete cascade,
    size_bytes bigint not null,
    modified timestamptz,
    check (num_nonnulls(table_id, lake_id) = 1)
);
comment on table thermocline.sweep_candidates is 'Old files that nothing named when they were listed. They are judged again before any of them is deleted.';
create index sweep_candidates_by_table on thermocline.sweep_candidates (table_id, lake_id);
