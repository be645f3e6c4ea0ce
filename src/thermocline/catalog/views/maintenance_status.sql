create or replace view thermocline.maintenance_status as
    with ran as (
        select distinct on (o.table_id, o.lake_id, r.operation)
               o.table_id, o.lake_id, r.operation, r.status, r.sentence, coalesce(o.ended_at, o.changed_at) as at,
               o.op_id
          from thermocline.op_log o
          cross join lateral jsonb_to_recordset(o.outcomes) as r(operation text, status text, sentence text)
         where o.kind = 'maintain'
         order by o.table_id, o.lake_id, r.operation, o.started_at desc)
    select m.table_id, m.lake_id, m.namespace, m.name, p.operation,
           case when r.status is null then 'not yet run'
                when r.status in ('done', 'skipped') then 'successful'
                else r.status end as status,
           r.at, r.sentence as message, r.op_id as pass_id, p.place
      from thermocline.maintained m
      join thermocline.format_operations p on p.format = m.format
      left join ran r
        on r.table_id is not distinct from m.table_id and r.lake_id is not distinct from m.lake_id
       and r.operation = p.operation;
comment on view thermocline.maintenance_status is
    'The last status of each operation on each table: not yet run,'
    ' successful, failed, disabled, paused.';
