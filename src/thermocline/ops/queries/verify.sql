-- name: ranges
select p.schema_name, p.name, p.lo, p.hi, p.is_whole,
       p.is_attached and not p.is_whole
           and exists (select from thermocline.partitions k where k.table_id = p.table_id and k.relid = p.relid
               and k.state <> 'dropped'
                          and k.capture_lost_at is not null)
  from thermocline.partitions_in_heap p
 where p.table_id = %(table_id)s and p.state in ('tiered', 'dropped')
     and p.hi <= %(t)s order by p.lo, p.hi, p.state = 'dropped'

-- name: sums
select op_id::text, counters -> 'sums' from thermocline.op_log
 where table_id = %(table_id)s and phase = 'published' and counters ? 'sums' order by started_at

-- name: files_leave
select exists (select from thermocline.op_log where table_id = %(table_id)s and phase = 'published'
    and kind not in ('tier', 'fold', 'maintain'))
