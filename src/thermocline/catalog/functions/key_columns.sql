-- The columns of a table's identity in the order of its index, with the index's own equality, and whether they can be
-- hashed.
create or replace function thermocline.key_columns(heap oid, identity text[])
    returns table (place bigint, name text, operator text, is_hashable boolean)
    language sql stable set search_path = pg_catalog as $$
    select k.place, a.attname::text, format('operator(%I.%s)', n.nspname, o.oprname), exists (
               select from pg_amproc h
                 join pg_opclass hc on hc.opcfamily = h.amprocfamily and hc.opcdefault
                 join pg_am am on am.oid = hc.opcmethod and am.amname = 'hash'
                where h.amprocnum = 2 and hc.opcintype in (a.atttypid, oc.opcintype))
      from pg_index i
      cross join lateral unnest(i.indkey::int2[], i.indclass::oid[]) with ordinality k(attnum, opclass, place)
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
      join pg_opclass oc on oc.oid = k.opclass
      join pg_amop ao on ao.amopfamily = oc.opcfamily and ao.amopstrategy = 3
           and ao.amoplefttype = oc.opcintype and ao.amoprighttype = oc.opcintype
      join pg_operator o on o.oid = ao.amopopr
      join pg_namespace n on n.oid = o.oprnamespace
     where k.place <= i.indnkeyatts and i.indexrelid = (
               select x.indexrelid from pg_index x cross join lateral (
                   select array_agg(c.attname::text) as names from pg_attribute c
                    where c.attrelid = x.indrelid and c.attnum = any((x.indkey::int2[])[0:x.indnkeyatts - 1])) covered
                where x.indrelid = heap and x.indisunique and x.indisvalid and x.indimmediate and x.indpred is null
                  and x.indexprs is null
                  and covered.names @> identity and covered.names <@ identity
                order by x.indisprimary desc, x.indexrelid limit 1)
     order by k.place $$;
