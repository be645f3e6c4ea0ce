-- Partitions that somebody attached or made below the seam's line are captured in that statement, else their rows would
-- be seen by nobody until the next cycle. A detached partition loses its capture trigger: changes of it are no
-- corrections.
create or replace function thermocline.on_partition_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p record;
begin
    if current_setting('thermocline.following', true) = 'on' then return; end if;
    perform thermocline.note_spill_capture(t.id) from thermocline.tables t
       join pg_trigger g on g.tgrelid = to_regclass(format('%I.%I', t.spill_schema, t.spill_name))
        and g.tgname = 'thermocline_capture' and g.tgenabled <> 'A'
       join pg_event_trigger_ddl_commands() c on c.classid = 'pg_class'::regclass and c.objid in (t.heap_oid, g.tgrelid)
      where t.id = any (array(select h.id from thermocline.tables_here h));
    for p in select distinct k.relid from thermocline.tables_here t
               join pg_event_trigger_ddl_commands() c on c.classid = 'pg_class'::regclass and c.objid = t.heap_oid
               join thermocline.partitions k on k.table_id = t.id
               join pg_trigger g on g.tgrelid = k.relid and g.tgname = 'thermocline_capture'
              where not exists (select from pg_inherits i where i.inhrelid = k.relid)
    loop
        execute format('drop trigger thermocline_capture on %s', p.relid::regclass);
        execute format('drop trigger if exists thermocline_capture_truncate on %s', p.relid::regclass);
    end loop;
    -- The line as it is: where it moved since this transaction's snapshot, Postgres refuses (40001), and the
    -- transaction runs again.
    if thermocline.reads_old_snapshot() then
        perform from thermocline.cutline k join thermocline.tables_here t on t.id = k.table_id
          where t.heap_oid in (select c.objid from pg_event_trigger_ddl_commands() c
                               union all
                               select i.inhparent from pg_event_trigger_ddl_commands() c
                                 join pg_inherits i on i.inhrelid = c.objid)
            for share of k;
    end if;
    for p in select distinct t.id, i.inhrelid from thermocline.tables_here t
               join thermocline.cutline k on k.table_id = t.id
               join pg_inherits i on i.inhparent = t.heap_oid
               join pg_event_trigger_ddl_commands() c on c.classid = 'pg_class'::regclass
                and c.objid in (t.heap_oid, i.inhrelid)
              where to_regclass(format('thermocline_delta.%I', t.object_name)) is not null
                and not exists (select from pg_trigger g
                                 where g.tgrelid = i.inhrelid and g.tgname = 'thermocline_capture')
                and thermocline.lower_bound(i.inhrelid, t.key_type) < k.seam_line
    loop
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.capture_partition(p.id, p.inhrelid);
        perform set_config('thermocline.following', '', true);
    end loop;
    -- Somebody switched a capture off: what is written until it fires again is missing in the lake, and so is noted
    -- until both were compared.
    update thermocline.partitions k set capture_lost_at = clock_timestamp()
      from thermocline.tables_here t, pg_event_trigger_ddl_commands() c
     where t.id = k.table_id and c.classid = 'pg_class'::regclass and c.objid in (t.heap_oid, k.relid)
       and k.state in ('sealing', 'tiering', 'tiered')
       and exists (select from pg_trigger g
                    where g.tgrelid = k.relid and g.tgname = 'thermocline_capture' and g.tgenabled <> 'A');
end $$;
revoke all on function thermocline.on_partition_end() from public;
