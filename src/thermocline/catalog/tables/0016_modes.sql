-- A mode is declared once, in `core/modes/mode.py`. `thermocline.modes` holds its properties, and a table stores its
-- mode by name.
create table thermocline.modes (
    name text primary key,
    heap_holds text not null,
    lake_holds text not null,
    lake_writer text not null,
    reads_from text not null,
    heap_is_complete boolean not null,
    drops_partitions boolean not null,
    splits_reads_at_t boolean not null,
    allows_lake_retention boolean not null,
    keeps_capture boolean not null,
    is_built boolean not null
);
grant select on thermocline.modes to public;
comment on table thermocline.modes is
    'The modes a table can be registered in. The rows come from `core/modes/mode.py`.';

alter table thermocline.tables drop constraint tables_mode_check;
alter table thermocline.tables drop constraint keep_heap_deletes_nothing;
update thermocline.tables set mode = mode || ' keep-heap' where keep_heap;

-- The rows of `thermocline.modes` are written at the end of the upgrade, so present rows are not checked here.
alter table thermocline.tables
    add constraint tables_mode_fkey foreign key (mode) references thermocline.modes (name) not valid;

comment on column thermocline.tables.mode is 'The mode by its name in `thermocline.modes`.';
comment on column thermocline.tables.keep_heap is 'Not used since catalog version 16: `mode` says it.';
