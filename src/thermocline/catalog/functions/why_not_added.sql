-- Why a column that was added cannot be followed, or null.
create or replace function thermocline.why_not_added(of_table bigint, a pg_attribute) returns text
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    is_told boolean;
begin
    select * into strict t from thermocline.tables where id = of_table;
    if a.attname in ('_snapshot', '_op', '_version', '_folded', '_old_key')
        then return 'its name is one of Thermocline''s own'; end if;
    if thermocline.is_unfaithful(a.atttypid) then
        return format('the text form of type %s does not read back the same everywhere',
                      format_type(a.atttypid, a.atttypmod));
    end if;
    if a.attgenerated = 'v' then return 'a virtual column has no values to store'; end if;
    -- From here on rows outside the heap matter: which value would they have?
    if not thermocline.has_rows_outside(of_table) then return null; end if;
    if not a.atthasdef and a.attidentity = '' then
        -- The heap's rows have the default of the type, which is not stored with the column.
        if (select y.typdefault is not null from pg_type y where y.oid = a.atttypid) then
            return format('type %s has a default of its own, which rows in the lake would not get: add it with DEFAULT'
                          ' NULL', format_type(a.atttypid, a.atttypmod));
        end if;
        begin
            perform thermocline.run_as_owner(of_table, format('select null::%s', format_type(a.atttypid, a.atttypmod)));
        exception when integrity_constraint_violation or check_violation or not_null_violation then
            return format('rows in the lake would be NULL, which type %s does not take',
                          format_type(a.atttypid, a.atttypmod));
        end;
        return null;
    end if;
    if a.attgenerated <> '' or a.attidentity <> '' then return 'rows in the lake would need a value of their own'
                                                               ' each'; end if;
    if thermocline.missing_value(t.heap_oid, a.attname) is not null then
        -- The seam reads it from either type, by the input function (live_columns).
        if (select count(*) from pg_cast k where k.casttarget = a.atttypid and k.castmethod = 'f'
               and k.castsource in ('text'::regtype, 'varchar'::regtype)) = 2
            then return 'its type has casts of its own from both text and varchar'; end if;
        return null;
    end if;
    -- A default, and no one value for old rows: either each row was given one of its own, or the default came after the
    -- column.
    -- To plan a query is enough to run a function of the user's: in the predicate of an index, for example.
    is_told := thermocline.run_as_owner(of_table, format('select from %s where %I is not null limit 1',
                                                         t.heap_oid::regclass, a.attname)) = 1
        or thermocline.run_as_owner(of_table, format('select from %s limit 1', t.heap_oid::regclass)) = 0;
    return case when is_told then 'its default is not the same for every row, and rows in the lake would need one'
                                  ' each' end;
end $$;
