-- name: keep
-- While the captures are still there: with them goes the proof that the heap has a partition whole.
insert into thermocline.kept_lakes (lake_uuid, lake_namespace, lake_name, lake_location, schema_name, table_name,
                                    heap_oid, pk, tier_key, key_type, lake_partition, profile, t, s, r, settings,
                                    columns, partitions)
select t.lake_uuid, t.lake_namespace, t.lake_name, t.lake_location, t.schema_name, t.table_name, t.heap_oid, t.pk,
       t.tier_key, t.key_type, t.lake_partition, t.profile, greatest(c.t, t.lake_until), c.s, c.r,
       jsonb_build_object('mode', t.mode, 'tiering_lag', t.tiering_lag, 'reclaim_lag', t.reclaim_lag,
                          'lake_retention', t.lake_retention, 'partition_width', t.partition_width,
                          'premake', t.premake, 'seam_schema', t.seam_schema,
                          'maintenance_policy', t.maintenance_policy),
       (select jsonb_agg(to_jsonb(k) - 'table_id' order by k.position) from thermocline.columns k
         where k.table_id = t.id),
       (select coalesce(jsonb_agg(jsonb_build_object('schema', p.schema_name, 'name', p.name, 'relid', p.relid::bigint,
                                                     'lo', p.lo, 'hi', p.hi, 'rows', p.rows_in_lake,
                                                     'is_dropped', p.state = 'dropped',
                       'is_whole', p.is_whole or (p.state <> 'dropped' and p.lo >= c.t))
                       order by p.lo), '[]')
          from thermocline.partitions_in_heap p where p.table_id = t.id and p.lo < greatest(c.t, t.lake_until))
  from thermocline.tables t join thermocline.cutline c on c.table_id = t.id
 where t.id = %(table_id)s and c.s is not null

-- name: kept
select lake_uuid, lake_namespace, lake_name, lake_location, schema_name, table_name, heap_oid::bigint as heap_oid,
       pk, tier_key, key_type, lake_partition, profile, t, s, r, columns, partitions, settings
  from thermocline.kept_lakes where lake_namespace = %(namespace)s and lake_name = %(name)s

-- name: kept_locations
select lake_location from thermocline.kept_lakes

-- name: forget
delete from thermocline.kept_lakes where lake_uuid = %(uuid)s

-- name: adopt_cutline
update thermocline.cutline set s = %(s)s, r = %(r)s where table_id = %(table_id)s

-- name: adopt_snapshot
insert into thermocline.published (table_id, snapshot_id) values (%(table_id)s, %(s)s)

-- name: adopt_partition
insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state, rows_in_lake)
values (%(table_id)s, %(schema)s, %(name)s, 0, %(lo)s, %(hi)s, 'dropped', %(rows)s)

-- name: adopt_policy
update thermocline.tables set maintenance_policy = %(policy)s where id = %(table_id)s

-- name: leave
insert into thermocline.lake_leftovers (location) values (%(location)s) on conflict do nothing

-- name: take
delete from thermocline.lake_leftovers where location = %(location)s

-- name: leftovers
select l.location from thermocline.lake_leftovers l
 where l.at < now() - make_interval(secs => %(grace_seconds)s)
   and not exists (select from thermocline.tables t where t.lake_location = l.location)
   and not exists (select from thermocline.kept_lakes k where k.lake_location = l.location)
 order by l.at
