-- `k1 = 'v1' and k2 = 'v2'` with the index's own equality and literals, so that the planner can leave a tier out.
create or replace function thermocline.key_condition(target thermocline.spanning, fields jsonb, alias text) returns text
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    condition text;
begin
    select string_agg(format('%I.%I operator(%I.%s) %L::%s', alias, k.name, n.nspname, o.oprname, fields ->> k.name,
                             format_type(a.atttypid, a.atttypmod)), ' and ' order by k.place)
      into condition
      from unnest(target.pk) with ordinality k(name, place)
      join pg_attribute a on a.attrelid = target.heap and a.attname = k.name
      join pg_type y on y.oid = a.atttypid
      join pg_opclass oc on oc.oid = (
               select u.opclass from pg_index i
                cross join lateral unnest(i.indkey::int2[], i.indclass::oid[]) u(attnum, opclass)
                where i.indrelid = target.heap and i.indisunique and u.attnum = a.attnum
                order by i.indisprimary desc limit 1)
      join pg_amop ao on ao.amopfamily = oc.opcfamily and ao.amopstrategy = 3
           and ao.amoplefttype = oc.opcintype and ao.amoprighttype = oc.opcintype
      join pg_operator o on o.oid = ao.amopopr
      join pg_namespace n on n.oid = o.oprnamespace;
    return condition;
end $$;
