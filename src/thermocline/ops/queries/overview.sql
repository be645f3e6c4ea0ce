-- name: overview
select c.t, c.s as snapshot,
       (select count(*) from thermocline.partitions p where p.table_id = t.id
           and p.state in ('hot', 'sealing', 'tiering')) as hot_partitions,
       (select count(*) from thermocline.partitions p where p.table_id = t.id and p.state = 'tiered')
           as tiered_partitions,
       (select count(*) from thermocline.partitions p where p.table_id = t.id and p.state = 'dropped')
           as dropped_partitions,
       (select coalesce(sum(p.rows_in_lake), 0)::bigint from thermocline.partitions p where p.table_id = t.id
           and p.state in ('tiered', 'dropped')) as rows_tiered,
       (select count(*) from thermocline.op_log o where o.table_id = t.id
           and o.phase not in ('published', 'abandoned') and o.kind <> 'maintain') as unfinished_ops
  from thermocline.tables t join thermocline.cutline c on c.table_id = t.id
 where t.id = %s

-- name: partitions
select schema_name, name, lo, hi, state, rows_in_lake from thermocline.partitions where table_id = %s order by lo, name

-- name: recent_ops
select op_id::text as op_id, kind, phase, result_snapshot as snapshot, message, started_at, changed_at
  from thermocline.op_log where table_id = %s order by started_at desc limit 10

-- name: recent_events
select at, sentence from thermocline.events where table_id = %s order by id desc limit 10
