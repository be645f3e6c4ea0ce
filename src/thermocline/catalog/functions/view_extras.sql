-- What somebody granted, said and set on a view, as the statements that give it to its successor of the same name.
create or replace function thermocline.view_extras(seam oid) returns text[]
    language sql stable set search_path = pg_catalog as $$
    select array(
        select format('grant %s%s on %s to %s%s', a.privilege_type,
                      case when g.attname is null then '' else format(' (%I)', g.attname) end, seam::regclass,
                      case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
                      case when a.is_grantable then ' with grant option' else '' end)
          from (select c.relowner, c.relacl as acl, null::name as attname from pg_class c where c.oid = seam
                union all
                select c.relowner, t.attacl, t.attname from pg_class c
                  join pg_attribute t on t.attrelid = c.oid and not t.attisdropped
                 where c.oid = seam) g
          cross join lateral aclexplode(g.acl) a
         where a.grantee <> g.relowner
        union all
        select format('alter view %s set (%s)', seam::regclass, array_to_string(c.reloptions, ', ')) from pg_class c
         where c.oid = seam and c.reloptions is not null
        union all
        select format('comment on view %s is %L', seam::regclass, obj_description(seam, 'pg_class'))
         where obj_description(seam, 'pg_class') is not null) $$;
