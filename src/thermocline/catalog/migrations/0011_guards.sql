-- What a registered table cannot have is refused when somebody gives it to the table later, in that statement: a policy or a foreign key
-- that rows in the lake would never hear of. Only commands that touch the table itself are looked at.
-- Partitions made, attached or detached by hand are followed at once, too.

alter table thermocline.partitions add column capture_lost_at timestamptz;
comment on column thermocline.partitions.capture_lost_at is
    'When its capture trigger was last seen disabled or gone; null again once both tiers were compared with the trigger firing.';
alter table thermocline.tables add column spill_capture_lost_at timestamptz;
comment on column thermocline.tables.spill_capture_lost_at is
    'When the capture trigger of the spill was last seen disabled or gone; null again once every range was compared with the trigger firing.';

-- Whether changes of a partition or of the spill become corrections: its capture trigger is there and fires always.
create function thermocline.is_captured(relation oid) returns boolean
    language sql stable set search_path = pg_catalog as $$
    select exists (select from pg_trigger g where g.tgrelid = relation and g.tgname = 'thermocline_capture' and g.tgenabled = 'A') $$;

-- Notes that the spill's changes were not captured for a time: rows of it may be missing where readers look. Whether they were not, or are not.
create function thermocline.note_spill_capture(of_table bigint) returns boolean
    language sql volatile set search_path = pg_catalog as $$
    update thermocline.tables t set spill_capture_lost_at = clock_timestamp()
     where t.id = of_table and not thermocline.is_captured(to_regclass(format('%I.%I', t.spill_schema, t.spill_name)));
    select t.spill_capture_lost_at is not null from thermocline.tables t where t.id = of_table $$;

create function thermocline.on_guarded_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    refused record;
begin
    if current_setting('thermocline.following', true) = 'on' then return; end if;
    select format('%I.%I', t.schema_name, t.table_name) as heap, w.what, w.hint
      into refused
      from thermocline.tables_here t
      join pg_event_trigger_ddl_commands() c on c.classid = 'pg_class'::regclass
      join lateral (
          select 'row-level security cannot be applied to rows in the lake' as what, 'Unregister the table first, or grant on views of its seam instead.' as hint
           where c.objid = t.heap_oid and (select h.relrowsecurity from pg_class h where h.oid = t.heap_oid)
          union all
          select format('the foreign key %I would change rows of the heap and not of the lake', f.conname),
                 'Let it be ON DELETE/UPDATE NO ACTION or RESTRICT.'
            from pg_constraint f
           where not t.keep_heap and c.objid = t.heap_oid and f.conrelid = t.heap_oid and f.contype = 'f' and f.conparentid = 0
             and (f.confdeltype in ('c', 'n', 'd') or f.confupdtype in ('c', 'n', 'd'))
          union all
          select format('the foreign key %I of %s would hold partitions back from leaving the heap', f.conname, f.conrelid::regclass),
                 'Reference another table, or check the reference by a trigger that reads the seam.'
            from pg_constraint f
           where not t.keep_heap and f.conrelid = c.objid and f.confrelid = t.heap_oid and f.contype = 'f' and f.conparentid = 0
          union all
          select format('only a plain table can be a partition of it, and %s is itself partitioned or foreign', p.oid::regclass),
                 'Attach the tables that hold the rows, one by one.'
            from pg_inherits i join pg_class p on p.oid = i.inhrelid
           where i.inhparent = t.heap_oid and p.relkind <> 'r' and c.objid in (t.heap_oid, p.oid)
      ) w on true
     limit 1;
    if found then
        raise exception '% is registered with Thermocline: %', refused.heap, refused.what using errcode = 'feature_not_supported', hint = refused.hint;
    end if;
end $$;

-- The lower end of a partition's range on the axis; null for the DEFAULT partition.
create function thermocline.lower_bound(relation oid, key_type text) returns bigint
    language plpgsql stable set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' as $$
declare
    low text := (select substring(pg_get_expr(c.relpartbound, c.oid) from '^FOR VALUES FROM \((MINVALUE|''(?:[^'']|'''')*''|-?\d+)\) TO')
                   from pg_class c where c.oid = relation);
    place bigint := -9223372036854775808;
begin
    if low <> 'MINVALUE' then execute format('select thermocline.axis(%s::%s)', low, key_type) into place; end if;
    return case when low is not null then place end;
end $$;

-- Whether this transaction reads at a snapshot that may be older than what it changes.
create function thermocline.reads_old_snapshot() returns boolean
    language sql stable set search_path = pg_catalog as $$
    select current_setting('transaction_isolation') in ('repeatable read', 'serializable') $$;

-- From now on every change of the partition is captured; what it holds becomes corrections, where readers below the cut-line look for it.
-- Rows below the retention line stay expired. How many rows it carried.
create function thermocline.capture_partition(of_table bigint, relation oid) returns bigint
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    parts jsonb := thermocline.seam_parts(of_table, 0) || jsonb_build_object('relation', relation::regclass);
    t thermocline.tables;
    carried bigint;
begin
    select * into strict t from thermocline.tables where id = of_table;
    if thermocline.reads_old_snapshot() and pg_relation_size(relation) > 0 then
        raise exception '% cannot become a partition of %.% at isolation level %: rows that were committed to it since the transaction began would be missed',
            relation::regclass, t.schema_name, t.table_name, upper(current_setting('transaction_isolation'))
            using errcode = 'feature_not_supported', hint = 'Attach it in a transaction at READ COMMITTED.';
    end if;
    execute format('create or replace trigger thermocline_capture after insert or update or delete on %s for each row execute function thermocline_fn.%I()',
                   relation::regclass, t.object_name || '_capture');
    execute format('create or replace trigger thermocline_capture_truncate before truncate on %s for each statement execute function thermocline_fn.%I()',
                   relation::regclass, t.object_name || '_capture_truncate');
    execute format('alter table %s enable always trigger thermocline_capture, enable always trigger thermocline_capture_truncate', relation::regclass);
    execute thermocline.filled('insert into {delta} ({columns}, _op, _version) select {columns}, 0, nextval(''thermocline.delta_version'') from only {relation}'
                               ' where {tier_key} >= {line} on conflict ({key_columns}) do update'
                               ' set {columns_from_excluded}, _op = 0, _version = excluded._version, _folded = null',
                               parts || jsonb_build_object('line', thermocline.key_literal(t.key_type, greatest(
                                   (select r.line from thermocline.retention r where r.table_id = of_table), -9223372036854775808))));
    get diagnostics carried = row_count;
    return carried;
end $$;

-- What is published of the heap's partitions holds until the publication ends: no partition is dropped or detached (they need the heap),
-- none made or attached (they need the spill). Whoever does so just now may wait for a lock of our own, so we wait for a moment only.
create function thermocline.hold_partitions(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog set lock_timeout = '2s' as $$
declare
    relation oid;
begin
    for relation in select r.oid from thermocline.tables t cross join lateral (values (1, t.heap_oid),
                                (2, to_regclass(format('%I.%I', t.spill_schema, t.spill_name))::oid)) r(place, oid)
                     where t.id = of_table and exists (select from pg_class c where c.oid = r.oid) order by r.place
    loop
        execute format('lock table only %s in access share mode', relation::regclass);
    end loop;
end $$;

-- A correction at or above the cut-line mirrors a row of the heap. One without its row is left of a partition that was dropped or detached,
-- and would bring the row back once the cut-line has passed it. Deleted by its version: a row that is written anew meanwhile stays.
create function thermocline.clear_stale(of_table bigint, high bigint) returns bigint
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    within text;
    cleared bigint;
begin
    select * into strict t from thermocline.tables where id = of_table;
    within := format('%%1$s.%1$I >= %2$s and %%1$s.%1$I < %3$s', replace(t.tier_key, '%', '%%'), thermocline.key_literal(t.key_type,
                     (select c.t from thermocline.cutline c where c.table_id = of_table)), thermocline.key_literal(t.key_type, high));
    execute format('delete from thermocline_delta.%1$I x using (select d._version from thermocline_delta.%1$I d where d._op = 0 and %2$s'
                   ' and not exists (select from %3$s h where %4$s)) s where x._version = s._version and %5$s',
                   t.object_name, format(within, 'd'), t.heap_oid::regclass,
                   (select string_agg(format('h.%1$I %2$s d.%1$I', k.name, k.operator), ' and ') from thermocline.key_columns(t.heap_oid, t.pk) k),
                   format(within, 'x'));
    get diagnostics cleared = row_count;
    return cleared;
end $$;

-- Partitions that somebody attached or made below the seam's line are captured in that statement, else their rows would be seen by nobody
-- until the next cycle. One that was detached lets go: what is done to it is no correction.
create function thermocline.on_partition_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    p record;
begin
    if current_setting('thermocline.following', true) = 'on' then return; end if;
    perform thermocline.note_spill_capture(t.id) from thermocline.tables t
       join pg_trigger g on g.tgrelid = to_regclass(format('%I.%I', t.spill_schema, t.spill_name)) and g.tgname = 'thermocline_capture' and g.tgenabled <> 'A'
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
    -- The line as it is: where it moved since this transaction's snapshot, Postgres refuses (40001), and the transaction runs again.
    if thermocline.reads_old_snapshot() then
        perform from thermocline.cutline k join thermocline.tables_here t on t.id = k.table_id
          where t.heap_oid in (select c.objid from pg_event_trigger_ddl_commands() c
                               union all select i.inhparent from pg_event_trigger_ddl_commands() c join pg_inherits i on i.inhrelid = c.objid)
            for share of k;
    end if;
    for p in select distinct t.id, i.inhrelid from thermocline.tables_here t
               join thermocline.cutline k on k.table_id = t.id
               join pg_inherits i on i.inhparent = t.heap_oid
               join pg_event_trigger_ddl_commands() c on c.classid = 'pg_class'::regclass and c.objid in (t.heap_oid, i.inhrelid)
              where to_regclass(format('thermocline_delta.%I', t.object_name)) is not null
                and not exists (select from pg_trigger g where g.tgrelid = i.inhrelid and g.tgname = 'thermocline_capture')
                and thermocline.lower_bound(i.inhrelid, t.key_type) < k.seam_line
    loop
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.capture_partition(p.id, p.inhrelid);
        perform set_config('thermocline.following', '', true);
    end loop;
    -- Somebody switched a capture off: what is written until it fires again is missing in the lake, and so is noted until both were compared.
    update thermocline.partitions k set capture_lost_at = clock_timestamp()
      from thermocline.tables_here t, pg_event_trigger_ddl_commands() c
     where t.id = k.table_id and c.classid = 'pg_class'::regclass and c.objid in (t.heap_oid, k.relid) and k.state in ('sealing', 'tiering', 'tiered')
       and exists (select from pg_trigger g where g.tgrelid = k.relid and g.tgname = 'thermocline_capture' and g.tgenabled <> 'A');
end $$;
revoke all on function thermocline.on_guarded_end(), thermocline.on_partition_end(), thermocline.capture_partition(bigint, oid),
    thermocline.hold_partitions(bigint), thermocline.clear_stale(bigint, bigint), thermocline.note_spill_capture(bigint) from public;

-- Event triggers are a superuser's to make; without them the limits say what is not looked at.
do $$
begin
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        create event trigger thermocline_guard on ddl_command_end
            when tag in ('ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA') execute function thermocline.on_guarded_end();
        create event trigger thermocline_partition_end on ddl_command_end when tag in ('ALTER TABLE', 'CREATE TABLE', 'CREATE SCHEMA')
            execute function thermocline.on_partition_end();
    end if;
end $$;
