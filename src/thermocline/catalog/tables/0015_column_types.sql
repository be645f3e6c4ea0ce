-- The types of Postgres that the lake holds natively. The rows come from `core/types.py`.
create table thermocline.column_types (
    typname text primary key,
    name text not null unique,
    lake_type text not null,
    max_precision integer,
    is_collated boolean not null,
    widens_to text[] not null,
    axis_unit text check (axis_unit in ('number', 'day', 'microsecond')),
    from_axis text,
    check (axis_unit is not null or from_axis is null)
);
grant select on thermocline.column_types to public;
comment on table thermocline.column_types is
    'Column types that the lake holds natively: their lake type, what they widen to, and their use as a tier key.';
comment on column thermocline.column_types.name is 'format_type() without a modifier.';
comment on column thermocline.column_types.max_precision is
    'The lake type takes precision and scale; a column with more digits, or with none declared, is held as text.';
comment on column thermocline.column_types.is_collated is
    'Postgres orders the type by a collation, the lake by bytes.';
comment on column thermocline.column_types.widens_to is
    'Types that hold every value unchanged in both tiers; lengths and precisions are compared in addition.';
comment on column thermocline.column_types.axis_unit is
    'The unit on the axis; null for types that cannot be a tier key.';
comment on column thermocline.column_types.from_axis is
    'The function of this schema that makes a key from its position on the axis; null where the position is the key.';

-- Built-in types whose text form may read back as another value; their columns are refused. From `core/types.py`.
create table thermocline.unfaithful_types (
    pattern text primary key
);
grant select on thermocline.unfaithful_types to public;
comment on table thermocline.unfaithful_types is
    'Patterns of built-in types, and of their arrays, that a registered table may not contain.';
