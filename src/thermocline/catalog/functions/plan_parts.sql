-- The scans and writes of a plan that concern spanning tables, one row each.
create or replace function thermocline.plan_parts(plan jsonb)
    returns table (id bigint, part text, relation text, operation text, conditions text[], remote_sql text,
                   is_through_seam boolean, is_below boolean)
    language sql stable set search_path = pg_catalog, pg_temp as $$
    with nodes as materialized (
        select n ->> 'Schema' as schema_name, n ->> 'Relation Name' as name, n ->> 'Node Type' as kind,
               lower(n ->> 'Operation') as operation,
               array_remove(array[n ->> 'Index Cond', n ->> 'Recheck Cond', n ->> 'Filter'], null) as conditions,
               n ->> 'Remote SQL' as remote_sql
          from jsonb_path_query(plan, 'strict $.** ? (exists (@."Node Type") && exists (@."Relation Name"))') n)
    select * from (
    select d.id, case when n.kind = 'ModifyTable' then 'write' when n.schema_name = 'thermocline_lake' then 'lake'
                      when n.schema_name = 'thermocline_delta' and n.name = d.object_name then 'delta'
                      when c.oid = d.spill then 'spill' else 'heap' end,
           n.name, n.operation, n.conditions, n.remote_sql,
           c.oid = d.seam or n.name = d.object_name
               or array_to_string(n.conditions, ' ')
                  ~ (quote_ident(d.tier_key) || ' >= (\$[0-9]+|\(InitPlan [0-9]+\)\.col1)') as is_through_seam,
           c.oid = any (d.below) and n.kind <> 'ModifyTable' as is_below
      from nodes n
      join pg_namespace s on s.nspname = n.schema_name
      join pg_class c on c.relnamespace = s.oid and c.relname = n.name
      join thermocline.spanning_detail d
        on c.oid in (d.heap, d.seam)
        or (n.name = d.object_name and n.schema_name in ('thermocline_lake', 'thermocline_delta'))
           or (c.relispartition and pg_partition_root(c.oid) = d.heap)
       -- The look into the delta that hides a corrected row of the lake is part of the lake's arm.
     where n.name <> d.object_name or n.schema_name <> 'thermocline_delta'
        or array_to_string(n.conditions, ' ') ~ '\m_op = 0') found
     -- A partition below T is in the plan and left out when it runs.
     where not (found.is_through_seam and found.is_below) $$;
