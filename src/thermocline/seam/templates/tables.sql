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
