-- A table moves partitions by itself from `thermocline start` to `thermocline stop`. Tables of earlier versions did so
-- from their registration on. The columns are filled by rewriting them: an UPDATE would check the mode of rows that an
-- earlier migration of this upgrade wrote, and `thermocline.modes` is filled at its end.
alter table thermocline.tables add column started_at timestamptz;
comment on column thermocline.tables.started_at is
    'Since when partitions move, leave the heap and expire by themselves; null while only `thermocline tier` moves '
    'them.';
alter table thermocline.tables alter column started_at type timestamptz using created_at;

-- The reclaim lag counts from the move of a partition. It counted from the partition's upper bound, as the tiering lag
-- does, so what is left of it after the tiering lag is how long partitions stayed.
alter table thermocline.partitions add column moved_at timestamptz, add column moved_key bigint;
comment on column thermocline.partitions.moved_at is
    'When the partition was tiered; with temporal keys the reclaim lag counts from here.';
comment on column thermocline.partitions.moved_key is
    'The newest row when the partition began to move; with integer keys the reclaim lag counts from here.';
comment on column thermocline.tables.reclaim_lag is
    'How long a tiered partition stays in the heap, in units of the axis.';
update thermocline.partitions p
   set moved_at = coalesce((select max(o.changed_at) from thermocline.op_log o
                             where o.table_id = p.table_id and o.kind = 'tier' and o.published_xid = p.tiered_xid),
                           p.changed_at),
       moved_key = case when t.key_type in ('smallint', 'integer', 'bigint')
                        then least(p.hi::numeric + t.tiering_lag, 9223372036854775807)::bigint end
  from thermocline.tables t
 where t.id = p.table_id and p.state = 'tiered';
alter table thermocline.tables alter column reclaim_lag type bigint using greatest(reclaim_lag - tiering_lag, 0);

-- A lake that is adopted brings the settings of the registration that left it.
alter table thermocline.kept_lakes add column settings jsonb not null default '{}';
comment on column thermocline.kept_lakes.settings is
    'Mode, lags, retention, partition width, premake, seam schema and maintenance policy of the registration that left '
    'the lake; empty where an earlier version left it.';
