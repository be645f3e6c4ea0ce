-- What a relation with the table's columns grants to others than its owner: columns by their number in the heap.
create or replace function thermocline.grants_on(of_table bigint, relation oid) returns jsonb
    language sql stable set search_path = pg_catalog as $$
    select coalesce(jsonb_agg(jsonb_build_object(
               'privilege', a.privilege_type, 'attnum', g.attnum, 'is_grantable', a.is_grantable,
               'grantee', case a.grantee when 0 then null else pg_get_userbyid(a.grantee) end)
               order by a.grantee, g.attnum, a.privilege_type, a.is_grantable), '[]')
      from (select c.relowner, c.relacl as acl, null::smallint as attnum from pg_class c where c.oid = relation
            union all
            select c.relowner, v.attacl, x.attnum
              from pg_class c join pg_attribute v on v.attrelid = c.oid and not v.attisdropped
              join thermocline.columns x on x.table_id = of_table and x.name = v.attname
             where c.oid = relation) g
      cross join lateral aclexplode(g.acl) a
     where a.grantee <> g.relowner $$;
revoke all on function thermocline.grants_on(bigint, oid) from public;
