-- Pins of readers outside Postgres; what the background verifier found.

create table thermocline.read_pins (
    id bigint generated always as identity primary key,
    table_id bigint not null references thermocline.tables on delete cascade,
    snapshot_id bigint,
    metadata_location text,
    holder text not null,
    pinned_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null
);
create index read_pins_by_table on thermocline.read_pins (table_id);
create index read_pins_by_expiry on thermocline.read_pins (expires_at);
comment on table thermocline.read_pins is
    'Published snapshots that readers outside Postgres read. Until expires_at nothing they reach is deleted; folding and tiering go on. Who
deletes must look at the live snapshots first and then read the pins under a SHARE lock on this table: a pin that is not committed yet is
waited for, and a reader whose transaction is over has committed its pin.';
comment on column thermocline.read_pins.snapshot_id is 'The published snapshot; null when the lake held nothing.';
comment on column thermocline.read_pins.metadata_location is 'The lake table''s metadata file at that time.';

create table thermocline.swept_pins (
    table_id bigint primary key references thermocline.tables on delete cascade,
    pins bigint not null
);
comment on table thermocline.swept_pins is 'How many pins of each table were found dead and removed, not released by their holder.';

create table thermocline.verified (
    table_id bigint not null references thermocline.tables on delete cascade,
    lo bigint not null,
    hi bigint not null,
    range text not null,
    at timestamptz not null default now(),
    drift_rows bigint not null,
    problem text,
    primary key (table_id, lo)
);
comment on table thermocline.verified is 'What the background verifier found, range by range: rows that differ between the tiers.';

-- The role whose rights count: the one of SET ROLE, else the login. The functions below run as our own role, so `current_user` would be ours.
create function thermocline.calling_role() returns name
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(nullif(current_setting('role'), 'none')::name, session_user) $$;

-- Whoever may delete pins in the table itself is an operator.
create function thermocline.check_pin_holder(holder text, pin bigint) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if thermocline.calling_role() <> holder and not has_table_privilege(thermocline.calling_role(), 'thermocline.read_pins', 'delete') then
        raise exception 'pin % is held by role "%"', pin, holder
            using errcode = 'insufficient_privilege', hint = 'Only its holder or an operator renews or releases a pin.';
    end if;
end $$;

create function thermocline.check_pin_ttl(ttl interval) returns void
    language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
    if ttl is null or ttl <= interval '0' or ttl > interval '7 days' then
        raise exception 'a pin lives longer than nothing and at most 7 days, not %', coalesce(ttl::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Renew it with thermocline.renew_pin() while it is needed.';
    end if;
end $$;

-- One statement reads T, S and the pointer and writes the pin: under REPEATABLE READ they are those of the transaction.
create function thermocline.pin(target regclass, ttl interval default interval '15 minutes',
                                out id bigint, out snapshot_id bigint, out metadata_location text, out t bigint, out expires_at timestamptz)
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    wanted bigint;
    reader name := thermocline.calling_role();
begin
    perform thermocline.check_pin_ttl(ttl);
    select p.id into wanted from thermocline.tables p
      cross join lateral (select to_regclass(format('%I.%I', p.seam_schema, p.table_name)) as seam) s
     where target in (p.heap_oid, s.seam)
       and (has_any_column_privilege(reader, p.heap_oid, 'select') or has_any_column_privilege(reader, s.seam, 'select'));
    if not found then
        raise exception '% is not a table that spans Postgres and the lake', target
            using errcode = 'undefined_table', hint = 'Name a registered table or its seam that you may read.';
    end if;
    with made as (
        insert into thermocline.read_pins (table_id, snapshot_id, metadata_location, holder, expires_at)
        select c.table_id, c.s, i.metadata_location, reader, clock_timestamp() + ttl
          from thermocline.cutline c
          join thermocline.tables p on p.id = c.table_id
          join thermocline_iceberg.iceberg_tables i
            on i.catalog_name = 'thermocline' and i.table_namespace = p.lake_namespace and i.table_name = p.lake_name
         where c.table_id = wanted
        returning read_pins.*)
    select m.id, m.snapshot_id, m.metadata_location, c.t, m.expires_at into id, snapshot_id, metadata_location, t, expires_at
      from made m join thermocline.cutline c on c.table_id = m.table_id;
end $$;
comment on function thermocline.pin(regclass, interval) is
    'Protects the published lake snapshot for a reader outside Postgres until it expires; gives the snapshot, its metadata file and T.';

create function thermocline.renew_pin(pin bigint, ttl interval default interval '15 minutes') returns timestamptz
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    found_pin thermocline.read_pins;
begin
    perform thermocline.check_pin_ttl(ttl);
    select * into found_pin from thermocline.read_pins p where p.id = pin for update;
    if not found or found_pin.expires_at <= clock_timestamp() then
        raise exception 'pin % is dead', pin using errcode = 'object_not_in_prerequisite_state',
            hint = 'What it protected may be gone; take a new one with thermocline.pin() and read again.';
    end if;
    perform thermocline.check_pin_holder(found_pin.holder, pin);
    update thermocline.read_pins p set expires_at = clock_timestamp() + ttl where p.id = pin returning p.expires_at into found_pin.expires_at;
    return found_pin.expires_at;
end $$;
comment on function thermocline.renew_pin(bigint, interval) is 'Keeps a living pin for another while; says until when.';

create function thermocline.release_pin(pin bigint) returns boolean
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
    found_holder text;
begin
    select p.holder into found_holder from thermocline.read_pins p where p.id = pin for update;
    if not found then return false; end if;
    perform thermocline.check_pin_holder(found_holder, pin);
    delete from thermocline.read_pins p where p.id = pin;
    return true;
end $$;
comment on function thermocline.release_pin(bigint) is 'Gives a pin back; false when it was gone already.';
