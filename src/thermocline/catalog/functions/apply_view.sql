-- The view for the columns as they are. Where columns left or changed their type, it is made anew, with all that was
-- granted on it; where others dropped it, with those grants that the heap has, too. Where something depends on it, it
-- stays: columns that left read NULL under another name, and a changed type is refused.
create or replace function thermocline.apply_view(of_table bigint, line bigint, retyped text[] default '{}',
                                                  floor bigint default null) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    parts jsonb := thermocline.seam_parts(of_table, line,
        coalesce(floor, (select k.seam_floor from thermocline.cutline k where k.table_id = of_table)));
    seam text;
    old oid;
    names text[] := array(select c.name from thermocline.live_columns(of_table) c order by c.place);
    had text[];
    dependent text;
    c record;
begin
    select * into strict t from thermocline.tables where id = of_table;
    seam := format('%I.%I', t.seam_schema, t.table_name);
    old := to_regclass(seam);
    if old is null then perform thermocline.forget_seam_grants(of_table); end if;
    had := array(select a.attname::text from pg_attribute a
                  where a.attrelid = old and a.attnum > 0 and not a.attisdropped order by a.attnum);
    if old is not null and (retyped <> '{}' or had <> names[1:cardinality(had)]) then
        perform thermocline.note_seam(of_table);
        select format('trigger %I', g.tgname) into dependent from pg_trigger g
         where g.tgrelid = old and g.tgname !~ '^thermocline_' limit 1;
        if not found then
            begin
                execute format('drop view %s', seam);
                old := null;
            exception when dependent_objects_still_exist then
                get stacked diagnostics dependent = pg_exception_detail;
            end;
        end if;
        if old is not null and retyped <> '{}' then
            raise exception 'cannot alter type of column "%" of %.%, for others build on its seam %',
                retyped[1], t.schema_name, t.table_name, seam
                using errcode = 'feature_not_supported', detail = dependent,
                hint = 'Drop what depends on the seam, alter the column, and make it again.';
        end if;
    end if;
    parts := parts || (
        select jsonb_build_object(
                   'heap_columns', string_agg(case when l.name is null then v.hollow else format('h.%I', l.name) end,
                                              ', ' order by v.place, l.place),
                   'lake_columns', string_agg(coalesce(l.lake_value, v.hollow), ', ' order by v.place, l.place),
                   'delta_columns', string_agg(case when l.name is null then v.hollow else format('d.%I', l.name) end,
                                               ', ' order by v.place, l.place))
          from thermocline.live_columns(of_table) l
          full join (select a.attname::text as name, a.attnum as place,
                            format('null::%s%s as %I', format_type(a.atttypid, a.atttypmod),
                                   case when a.attcollation <> 0 then format(' collate %I.%I', n.nspname, k.collname)
                                        else '' end, a.attname) as hollow
                       from pg_attribute a left join pg_collation k on k.oid = a.attcollation
                       left join pg_namespace n on n.oid = k.collnamespace
                      where a.attrelid = old and a.attnum > 0 and not a.attisdropped) v on v.name = l.name);
    perform thermocline.apply_lake_range(of_table, line);
    execute thermocline.render('seam', parts);
    if old is null then
        execute format('alter view %s owner to %I', seam, (select pg_get_userbyid(h.relowner) from pg_class h
                                                            where h.oid = t.heap_oid));
        perform thermocline.apply_view_triggers(of_table);
        for c in select e from thermocline.seam_extras(of_table) e loop
            begin
                execute c.e;
            exception when undefined_object then
                null; -- a right of a role that is gone
            end;
        end loop;
    end if;
    -- A default's text is read again here, and a literal of the user's own type may run a domain's CHECK.
    perform thermocline.run_as_owner(of_table, (
        select string_agg(format('alter view %s alter column %I %s', seam, l.name,
                                 coalesce('set default ' || l.preset, 'drop default')), '; ' order by l.place)
          from thermocline.live_columns(of_table) l));
    for c in select * from thermocline.live_columns(of_table) loop
        if c.comment is not null then execute format('comment on column %s.%I is %L', seam, c.name, c.comment); end if;
    end loop;
end $$;
revoke all on function thermocline.apply_view(bigint, bigint, text[], bigint) from public;
