create or replace function thermocline.follow_added(t thermocline.tables, a pg_attribute) returns text
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    delta text := format('thermocline_delta.%I', t.object_name);
    now_type text := format_type(a.atttypid, a.atttypmod);
    now_base text := thermocline.base_type(a.atttypid);
    collation_text text := (select format(' collate %I.%I', n.nspname, c.collname)
                              from pg_collation c join pg_namespace n on n.oid = c.collnamespace
                             where c.oid = a.attcollation);
    old_rows text := thermocline.missing_value(t.heap_oid, a.attname);
    reason text := thermocline.why_not_added(t.id, a);
    -- A domain checks what it is given, NULL included, and a composite or a range may hold one. So the owner adds such
    -- a column, and the delta is the owner's for that one statement.
    has_own_code boolean := (select y.typnamespace <> 'pg_catalog'::regnamespace from pg_type y
                              where y.oid = a.atttypid);
    added text;
begin
    if reason is not null then
        perform thermocline.refuse_change(t.id, format('column %s %s was added', a.attname, now_type), reason);
    end if;
    added := format('alter table %s add column %I %s%s%s', delta, a.attname, now_type, collation_text,
                    coalesce(' default ' || quote_literal(old_rows), ''));
    if has_own_code then
        execute format('alter table %s owner to %I', delta,
                       (select pg_get_userbyid(h.relowner) from pg_class h where h.oid = t.heap_oid));
        perform thermocline.run_as_owner(t.id, added);
    else
        execute added;
    end if;
    execute format('alter table %s alter column %I drop default', delta, a.attname);
    update thermocline.tables x
       set last_field_id = greatest(x.last_field_id, (select max(c.field_id) from thermocline.columns c
                                                       where c.table_id = t.id)) + 1
     where x.id = t.id;
    insert into thermocline.columns (table_id, position, name, attnum, base_type, pg_type, lake_type, form, field_id,
                                     required, missing, absent)
    select t.id, coalesce(max(c.position), 0) + 1, a.attname, a.attnum, now_base, now_type,
           coalesce(thermocline.lake_type(now_base, now_type), 'string'),
           case when thermocline.lake_type(now_base, now_type) is null then 'text' else 'native' end,
           (select x.last_field_id from thermocline.tables x where x.id = t.id), false, old_rows, true
      from thermocline.columns c where c.table_id = t.id;
    if has_own_code then perform thermocline.apply_delta_owner(t.id); end if;
    return format('column %s %s added%s', a.attname, now_type, coalesce(', old rows read ' || old_rows, ''));
end $$;
