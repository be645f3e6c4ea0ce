-- name: followed
select pg_get_userbyid(h.relowner) as owner,
       not exists (select from pg_class c where c.oid in (select to_regclass(r) from unnest(%(relations)s::text[]) r)
           and c.relowner <> h.relowner)
       and not exists (select from pg_proc p where p.pronamespace = 'thermocline_fn'::regnamespace
           and p.proowner <> h.relowner
                          and p.proname in (%(functions)s || '_capture', %(functions)s || '_route_insert'))
       and has_schema_privilege(h.relowner, 'thermocline_delta', 'usage')
       and has_table_privilege(h.relowner, 'thermocline.cutline', 'select')
       and has_sequence_privilege(h.relowner, 'thermocline.delta_version', 'usage')
       and exists (select from pg_user_mappings m where m.srvname = 'thermocline_gateway' and m.umuser = h.relowner)
           as is_followed,
       not exists (select from pg_class d join pg_namespace n on n.nspname = 'thermocline'
                    where d.oid = to_regclass(%(delta)s)
                      and (d.relowner <> n.nspowner or not has_table_privilege(h.relowner, d.oid, 'delete')))
           as is_delta_ours
  from pg_class h where h.oid = %(heap_oid)s
