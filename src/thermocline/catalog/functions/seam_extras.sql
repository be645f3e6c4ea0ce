-- What the seam had when it was last noted, as the statements that give it to its successor. Of one that was never
-- noted it is what the heap grants and a registration copies. A right on a column that is gone is not among them.
create or replace function thermocline.seam_extras(of_table bigint) returns setof text
    language sql stable set search_path = pg_catalog as $$
    with noted as (
        select format('%I.%I', t.seam_schema, t.table_name) as seam,
               t.seam_extras is not null as is_noted,
               coalesce(t.seam_extras, jsonb_build_object('grants', thermocline.grants_on(t.id, t.heap_oid))) as extras
          from thermocline.tables t where t.id = of_table)
    select format('grant %s%s on %s to %s%s', g ->> 'privilege',
                  case when x.name is null then '' else format(' (%I)', x.name) end, n.seam,
                  case when g ->> 'grantee' is null then 'public' else quote_ident(g ->> 'grantee') end,
                  case when (g ->> 'is_grantable')::boolean then ' with grant option' else '' end)
      from noted n cross join lateral jsonb_array_elements(n.extras -> 'grants') g
      left join thermocline.columns x on x.table_id = of_table and x.attnum = (g ->> 'attnum')::smallint
     where (g ->> 'attnum' is null or x.name is not null)
       and (n.is_noted or g ->> 'privilege' in ('SELECT', 'INSERT', 'UPDATE', 'DELETE'))
    union all
    select format('alter view %s set (%s)', n.seam, o) from noted n
      cross join lateral jsonb_array_elements_text(n.extras -> 'options') o
    union all
    select format('comment on view %s is %L', n.seam, n.extras ->> 'comment') from noted n
     where n.extras ->> 'comment' is not null
    union all
    select format('comment on column %s.%I is %L', n.seam, x.name, c.value) from noted n
      cross join lateral jsonb_each_text(n.extras -> 'column_comments') c
      join thermocline.columns x on x.table_id = of_table and x.attnum = c.key::smallint $$;
revoke all on function thermocline.seam_extras(bigint) from public;
