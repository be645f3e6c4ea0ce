-- The lake arm's parent: a partitioned table whose one partition with rows is the foreign table, up to the line. What
-- is at or above the line is pruned, also where a query's bound is known only when it runs.
--
-- The line is the view's literal, and both change in one transaction under the view's lock: no reader of the view is
-- there while the foreign table is detached. The foreign table stays the same one, so its statistics stay too.
create or replace function thermocline.apply_lake_range(of_table bigint, line bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    parts jsonb := thermocline.seam_parts(of_table, line);
    parent text := parts ->> 'lake_range';
    nothing text := parts ->> 'lake_none';
    lake text := parts ->> 'lake';
    owner text;
    wanted bigint;
begin
    select * into strict t from thermocline.tables where id = of_table;
    if to_regclass(parent) is null then
        execute thermocline.render('lake_range', parts);
        execute thermocline.render('lake_none', parts);
        owner := (select pg_get_userbyid(h.relowner) from pg_class h where h.oid = t.heap_oid);
        execute format('alter table %s owner to %I', parent, owner);
        execute format('alter table %s owner to %I', nothing, owner);
        execute format('revoke insert, update, delete, truncate on %s, %s from %I', parent, nothing, owner);
    end if;
    -- The planner expects rows in a table that was never analysed.
    if (select c.reltuples < 0 from pg_class c where c.oid = to_regclass(nothing)) then
        execute format('analyze %s', nothing);
    end if;
    wanted := case when line > (thermocline.key_limits(t.key_type)).highest then 9223372036854775807 else line end;
    if thermocline.upper_bound(lake::regclass, t.key_type) is distinct from wanted then
        if exists (select from pg_inherits i where i.inhrelid = lake::regclass) then
            execute format('alter table %s detach partition %s', parent, lake);
        end if;
        -- A line at the start of the axis: nothing is in the lake.
        if line > (thermocline.key_limits(t.key_type)).lowest then
            execute thermocline.render('attach_lake', parts);
        end if;
    end if;
end $$;
revoke all on function thermocline.apply_lake_range(bigint, bigint) from public;
