-- Records the grants, options and comments of the seam, while it exists.
create or replace function thermocline.note_seam(of_table bigint) returns void
    language sql volatile set search_path = pg_catalog as $$
    update thermocline.tables t set seam_extras = n.extras
      from (select r.id, jsonb_build_object(
                'grants', thermocline.grants_on(r.id, c.oid),
                'options', coalesce(to_jsonb(c.reloptions), '[]'),
                'comment', obj_description(c.oid, 'pg_class'),
                'column_comments', (
                    select coalesce(jsonb_object_agg(x.attnum, col_description(c.oid, v.attnum)), '{}')
                      from pg_attribute v join thermocline.columns x on x.table_id = r.id and x.name = v.attname
                     where v.attrelid = c.oid and not v.attisdropped
                       and col_description(c.oid, v.attnum) is not null)) as extras
              from thermocline.tables r
              join pg_class c on c.oid = to_regclass(format('%I.%I', r.seam_schema, r.table_name))
             where r.id = of_table) n
     where t.id = n.id and t.seam_extras is distinct from n.extras $$;
revoke all on function thermocline.note_seam(bigint) from public;
