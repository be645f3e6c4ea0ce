-- Where the lake's catalog lives. A copy of the database (a restored dump, a database made from this one as template) names the same files;
-- whatever it rewrote, expired or swept would be the original's loss, so it moves nothing until somebody says that it is the original now.

create table thermocline.home (
    only_one boolean primary key default true check (only_one),
    system_identifier bigint,
    database_oid oid not null,
    catalog_oid oid not null,
    lakes_checked timestamptz,
    since timestamptz not null default now()
);
comment on column thermocline.home.catalog_oid is 'Of thermocline.tables: a database made as TEMPLATE keeps it, a restored dump does not.';
comment on column thermocline.home.lakes_checked is
    'The start of the Postgres under which every lake was compared with the journal: a restore to an earlier moment starts another one.';
comment on table thermocline.home is 'The cluster and the database whose registrations these are, noted with the first of them.';

-- This cluster's own number; null where the role may not ask.
create function thermocline.system_identifier() returns bigint
    language plpgsql stable set search_path = pg_catalog as $$
begin
    return (select s.system_identifier from pg_control_system() s);
exception when insufficient_privilege then
    return null;
end $$;

create function thermocline.note_home() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    insert into thermocline.home (system_identifier, database_oid, catalog_oid, lakes_checked)
    select thermocline.system_identifier(), d.oid, 'thermocline.tables'::regclass, pg_postmaster_start_time() from pg_database d where d.datname = current_database()
    on conflict do nothing;
    return null;
end $$;
create trigger note_home after insert on thermocline.tables for each statement execute function thermocline.note_home();
create trigger note_home after insert on thermocline.lake_tables for each statement execute function thermocline.note_home();

-- Whether the registrations were made here, as far as anybody can tell.
create function thermocline.is_home() returns boolean
    language sql stable set search_path = pg_catalog as $$
    select coalesce(bool_and(h.database_oid = d.oid and coalesce(h.system_identifier = thermocline.system_identifier(), true)), true)
      from thermocline.home h, pg_database d where d.datname = current_database() $$;

create function thermocline.lakes_are_checked() returns boolean
    language sql stable set search_path = pg_catalog as $$
    select coalesce(bool_and(h.lakes_checked is not distinct from pg_postmaster_start_time()), true) from thermocline.home h $$;

-- The registered tables whose object numbers (of relations, columns and types) are this database's own. A restored dump gave every object
-- another number: what the catalog notes may be the number of somebody else's table. Event triggers follow these tables and no others.
create or replace view thermocline.tables_here as
select t.id, t.schema_name, t.table_name, t.object_name, t.heap_oid, t.key_type, t.keep_heap from thermocline.tables t
 where thermocline.is_home()
    or (exists (select from thermocline.home h where h.catalog_oid = 'thermocline.tables'::regclass)
        and to_regclass(format('%I.%I', t.schema_name, t.table_name)) = t.heap_oid
        and (select max(c.attnum) from thermocline.columns c where c.table_id = t.id) <= (select h.relnatts from pg_class h where h.oid = t.heap_oid));
comment on view thermocline.tables_here is 'Registered tables whose object numbers are valid in this database.';

-- Why the table of this name is not the one that was registered, or null: its spill is the DEFAULT partition, with our trigger, and every
-- column is there with its type. A table made anew under the same name has no such spill.
create function thermocline.why_not_bound(of_table bigint) returns text
    language plpgsql stable set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    heap oid;
    spill oid;
    missing text;
begin
    select * into strict t from thermocline.tables where id = of_table;
    heap := to_regclass(format('%I.%I', t.schema_name, t.table_name));
    spill := to_regclass(format('%I.%I', t.spill_schema, t.spill_name));
    if heap is null then return 'there is no table of this name'; end if;
    if not exists (select from pg_partitioned_table p where p.partrelid = heap and p.partdefid = spill) then
        return format('its DEFAULT partition is not %I.%I', t.spill_schema, t.spill_name);
    end if;
    if not exists (select from pg_trigger g join pg_proc f on f.oid = g.tgfoid
                    where g.tgrelid = spill and g.tgname = 'thermocline_capture' and f.pronamespace = 'thermocline_fn'::regnamespace
                      and f.proname = t.object_name || '_capture') then
        return format('%I.%I has not the capture trigger of this registration', t.spill_schema, t.spill_name);
    end if;
    select format('column %I is not there as %s', c.name, c.pg_type) into missing from thermocline.columns c
     where c.table_id = of_table and not exists (select from pg_attribute a where a.attrelid = heap and a.attname = c.name and a.attnum > 0
                                                  and not a.attisdropped and format_type(a.atttypid, a.atttypmod) = c.pg_type) limit 1;
    return missing;
end $$;

-- Binds a table's object numbers anew, by name. What a transaction of the other cluster wrote is as old as this transaction: no snapshot
-- taken before it is alive here, so corrections already folded are not needed for anybody's conflict.
create function thermocline.bind_table(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    heap_now oid;
    held thermocline.partitions[];
begin
    update thermocline.tables x set heap_oid = to_regclass(format('%I.%I', x.schema_name, x.table_name)) where x.id = of_table returning * into strict t;
    heap_now := t.heap_oid;
    update thermocline.columns c set attnum = a.attnum
      from pg_attribute a where c.table_id = of_table and a.attrelid = heap_now and a.attname = c.name and not a.attisdropped;
    -- All numbers at once: one partition's new number may be another one's old number.
    with gone as (delete from thermocline.partitions p where p.table_id = of_table and p.state <> 'dropped' returning p)
    select array_agg(g.p) into held from gone g;
    insert into thermocline.partitions (table_id, schema_name, name, relid, lo, hi, state, rows_in_lake, tiered_xid, changed_at, capture_lost_at)
    select p.table_id, p.schema_name, p.name, i.inhrelid, p.lo, p.hi, p.state, p.rows_in_lake, p.tiered_xid, p.changed_at, p.capture_lost_at
      from unnest(held) p join pg_inherits i on i.inhparent = heap_now and i.inhrelid = to_regclass(format('%I.%I', p.schema_name, p.name));
    perform thermocline.apply_seam(of_table, (select k.seam_line from thermocline.cutline k where k.table_id = of_table));
end $$;

create function thermocline.forget_transactions(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    update thermocline.cutline set folding_xid = null where table_id = of_table;
    update thermocline.published set published_xid = pg_current_xact_id(),
           superseded_xid = case when superseded_xid is not null then pg_current_xact_id() end where table_id = of_table;
    update thermocline.partitions set tiered_xid = pg_current_xact_id() where table_id = of_table and tiered_xid is not null;
    execute format('delete from thermocline_delta.%I where _folded is not null', (select t.object_name from thermocline.tables t where t.id = of_table));
    update thermocline.op_log set published_xid = pg_current_xact_id(), purged_at = case when kind = 'fold' then coalesce(purged_at, now()) else purged_at end
     where table_id = of_table and published_xid is not null;
end $$;

-- This database is the original from now on. The names of tables that could not be bound, each with the reason: nothing follows them.
create function thermocline.claim_home() returns table (heap text, reason text)
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    is_bound boolean := exists (select from thermocline.home h where h.catalog_oid = 'thermocline.tables'::regclass);
    t record;
begin
    if thermocline.is_home() then return; end if;
    perform set_config('thermocline.following', 'on', true);
    if not is_bound then
        delete from thermocline.enum_labels;
        delete from thermocline.type_shapes;
        update thermocline.kept_lakes set heap_oid = 0;
    end if;
    delete from thermocline.workers;
    delete from thermocline.standbys;
    for t in select r.id, format('%I.%I', r.schema_name, r.table_name) as heap, thermocline.why_not_bound(r.id) as reason,
                    exists (select from thermocline.tables_here h where h.id = r.id) as is_here from thermocline.tables r order by r.id
    loop
        perform thermocline.forget_transactions(t.id);
        continue when t.is_here;
        if t.reason is null then
            perform thermocline.bind_table(t.id);
        else
            update thermocline.tables x set heap_oid = 0 where x.id = t.id;
            return query select t.heap, t.reason;
        end if;
    end loop;
    update thermocline.home h set system_identifier = thermocline.system_identifier(), database_oid = d.oid,
           catalog_oid = 'thermocline.tables'::regclass, lakes_checked = null, since = now()
      from pg_database d where d.datname = current_database();
    perform set_config('thermocline.following', '', true);
end $$;
revoke all on function thermocline.note_home(), thermocline.claim_home(), thermocline.bind_table(bigint), thermocline.forget_transactions(bigint),
    thermocline.why_not_bound(bigint) from public;
