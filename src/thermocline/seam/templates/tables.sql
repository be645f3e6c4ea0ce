-- name: delta
create table {delta} ({typed_columns},
    _op smallint not null check (_op in (0, 1)),
    _version bigint not null,
    _folded xid8,
    _old_key {tier_key_type},
    primary key ({delta_key})) with (fillfactor = 50)

-- name: spill
create table {spill} partition of {heap} default

-- name: foreign_table
create foreign table {lake} ({foreign_columns}, _snapshot bigint)
    server thermocline_gateway options (schema_name {lake_schema}, table_name {lake_table})

-- name: lake_range
create table {lake_range} (like {lake}) partition by range ({tier_key})

-- name: lake_none
-- No value is below its upper end. Postgres prunes partitions at run time only where there are two or more.
create table {lake_none} partition of {lake_range} for values from (minvalue) to ({lowest})

-- name: attach_lake
alter table {lake_range} attach partition {lake} for values from ({lowest}) to ({lake_end})
