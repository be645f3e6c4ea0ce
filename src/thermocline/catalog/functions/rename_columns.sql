-- Renames a column of a relation by way of a name nobody has, so that two columns may swap theirs.
create or replace function thermocline.rename_columns(kind text, relation text, renames jsonb) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    r record;
begin
    for r in select * from jsonb_to_recordset(renames) x(was text, now text, attnum integer) loop
        execute format('alter %s %s rename column %I to %I', kind, relation, r.was,
                       '_thermocline_renamed_' || r.attnum);
    end loop;
    for r in select * from jsonb_to_recordset(renames) x(was text, now text, attnum integer) loop
        execute format('alter %s %s rename column %I to %I', kind, relation, '_thermocline_renamed_' || r.attnum,
                       r.now);
    end loop;
end $$;
