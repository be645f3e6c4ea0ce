create or replace function thermocline.follow_retyped(t thermocline.tables, was thermocline.columns, a pg_attribute)
    returns text
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    delta text := format('thermocline_delta.%I', t.object_name);
    now_type text := format_type(a.atttypid, a.atttypmod);
    now_base text := thermocline.base_type(a.atttypid);
    collation_text text := (select format(' collate %I.%I', n.nspname, c.collname)
                              from pg_collation c join pg_namespace n on n.oid = c.collnamespace
                             where c.oid = a.attcollation);
begin
    if not thermocline.is_widening(was.base_type, was.pg_type, now_base, now_type) then
        perform thermocline.refuse_change(t.id, format('column %s changed from %s to %s', a.attname, was.pg_type,
                                                       now_type), null);
    end if;
    execute format('alter table %s alter column %I type %s%s', delta, a.attname, now_type, collation_text);
    if was.missing is not null then
        execute format('select %L::%s::%s::text', was.missing, was.pg_type, now_type) into was.missing;
    end if;
    update thermocline.columns c
       set base_type = now_base, pg_type = now_type,
           lake_type = coalesce(thermocline.lake_type(now_base, now_type), 'string'),
           missing = was.missing, held_as = case when not c.absent then coalesce(c.held_as, was.pg_type) end
     where c.table_id = t.id and c.attnum = a.attnum;
    return format('column %s changed from %s to %s', a.attname, was.pg_type, now_type);
end $$;
