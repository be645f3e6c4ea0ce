-- Pins of readers outside Postgres; what the background verifier found.

create table thermocline.read_pins (
    id bigint generated always as identity primary key,
    table_id bigint not null references thermocline.tables on delete cascade,
    snapshot_id bigint,
    metadata_location text,
    t bigint not null,
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
comment on column thermocline.read_pins.t is 'Rows at or above this the reader takes from the heap: partitions that reach above it are not dropped.';
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

-- One statement reads T, S, the pointer and the corrections that wait, and writes the pin: all are of one point in time.
create function thermocline.pin(target regclass, ttl interval default interval '15 minutes',
                                out id bigint, out snapshot_id bigint, out metadata_location text, out t bigint, out expires_at timestamptz,
                                out pending_corrections bigint)
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    wanted thermocline.tables;
    reader name := thermocline.calling_role();
begin
    perform thermocline.check_pin_ttl(ttl);
    select p.* into wanted from thermocline.tables p
      cross join lateral (select to_regclass(format('%I.%I', p.seam_schema, p.table_name)) as seam) s
     where target in (p.heap_oid, s.seam)
       and (has_any_column_privilege(reader, p.heap_oid, 'select') or has_any_column_privilege(reader, s.seam, 'select'));
    if not found then
        raise exception '% is not a table that spans Postgres and the lake', target
            using errcode = 'undefined_table', hint = 'Name a registered table or its seam that you may read.';
    end if;
    execute format($pin$
    with made as (
        insert into thermocline.read_pins (table_id, snapshot_id, metadata_location, t, holder, expires_at)
        select c.table_id, c.s, i.metadata_location, c.t, $2, clock_timestamp() + $3
          from thermocline.cutline c
          join thermocline.tables p on p.id = c.table_id
          join thermocline_iceberg.iceberg_tables i
            on i.catalog_name = 'thermocline' and i.table_namespace = p.lake_namespace and i.table_name = p.lake_name
         where c.table_id = $1
        returning read_pins.*)
    select m.id, m.snapshot_id, m.metadata_location, m.t, m.expires_at,
           (select count(*) from thermocline_delta.%1$I d where d._folded is null and d.%2$I < %3$s)
      from made m
    $pin$, wanted.object_name, wanted.tier_key, thermocline.key_expression(wanted.key_type, 'm.t'))
       into id, snapshot_id, metadata_location, t, expires_at, pending_corrections
      using wanted.id, reader, ttl;
    if pending_corrections > 0 then
        raise notice '% corrections of %.% wait in Postgres and are not in the lake at this snapshot',
                     pending_corrections, wanted.schema_name, wanted.table_name
            using hint = 'Read the seam to see them, or fold first: thermocline fold ' || wanted.schema_name || '.' || wanted.table_name || '.';
    end if;
end $$;
comment on function thermocline.pin(regclass, interval) is
    'Protects the published lake snapshot for a reader outside Postgres until it expires; gives the snapshot, its metadata file, T and how'
    ' many corrections of older rows the lake does not hold yet.';

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

-- Where each kind of statement goes, by mode and side of T; `core/routing.py` holds the same table, and a test compares the two.
create table thermocline.routes (
    operation text not null,
    mode text not null,
    side text not null check (side in ('recent', 'historical')),
    path text not null,
    sentence text not null,
    primary key (operation, mode, side)
);
grant select on thermocline.routes to public;
insert into thermocline.routes (operation, mode, side, path, sentence) values
    ('insert', 'tiered', 'recent', 'heap', 'a plain insert into the heap; the delta is not touched'),
    ('update', 'tiered', 'recent', 'heap', 'changed in place in the heap; the delta is not touched'),
    ('delete', 'tiered', 'recent', 'heap', 'deleted from the heap; the delta is not touched'),
    ('insert', 'tiered', 'historical', 'heap''s spill and delta', 'into the heap''s spill, where every constraint is checked, and from there into the delta'),
    ('update', 'tiered', 'historical', 'heap''s spill and delta', 'the new image goes through the spill into the delta and hides the lake''s row'),
    ('delete', 'tiered', 'historical', 'delta', 'a tombstone in the delta hides the lake''s row'),
    ('bulk load', 'tiered', 'historical', 'lake commit', '`thermocline ingest`: one lake commit, by key'),
    ('labelled batch', 'tiered', 'historical', 'delta', 'into the delta, or staged for a lake commit above the spool threshold'),
    ('read', 'tiered', 'historical', 'lake and delta', 'the lake at S, corrected by the delta'),
    ('bulk load', 'tiered', 'recent', 'heap', 'COPY into the heap; `thermocline ingest` refuses rows at or above T'),
    ('labelled batch', 'tiered', 'recent', 'heap', 'upserted in the heap'),
    ('read', 'tiered', 'recent', 'heap', 'the heap'),
    ('insert', 'tiered keep-heap', 'recent', 'heap', 'a plain insert into the heap; the delta is not touched'),
    ('update', 'tiered keep-heap', 'recent', 'heap', 'changed in place in the heap; the delta is not touched'),
    ('delete', 'tiered keep-heap', 'recent', 'heap', 'deleted from the heap; the delta is not touched'),
    ('insert', 'tiered keep-heap', 'historical', 'heap and delta', 'inserted into the heap; the trigger on the partition carries it into the delta'),
    ('update', 'tiered keep-heap', 'historical', 'heap and delta', 'changed in the heap; the trigger on the partition carries it into the delta'),
    ('delete', 'tiered keep-heap', 'historical', 'heap and delta', 'deleted from the heap; the trigger on the partition carries it into the delta'),
    ('bulk load', 'tiered keep-heap', 'historical', 'heap and delta', 'COPY into the heap; the trigger on the partition carries it into the delta; `thermocline ingest` is refused'),
    ('labelled batch', 'tiered keep-heap', 'historical', 'heap and delta', 'into the heap and the delta in one transaction'),
    ('read', 'tiered keep-heap', 'historical', 'lake and delta', 'the lake at S, corrected by the delta'),
    ('bulk load', 'tiered keep-heap', 'recent', 'heap', 'COPY into the heap'),
    ('labelled batch', 'tiered keep-heap', 'recent', 'heap', 'upserted in the heap'),
    ('read', 'tiered keep-heap', 'recent', 'heap', 'the heap'),
    ('insert', 'mirrored', 'recent', 'heap', 'inserted into the heap; the lake trails'),
    ('insert', 'mirrored', 'historical', 'heap', 'inserted into the heap; the lake trails'),
    ('update', 'mirrored', 'recent', 'heap', 'changed in the heap; the lake trails'),
    ('update', 'mirrored', 'historical', 'heap', 'changed in the heap; the lake trails'),
    ('delete', 'mirrored', 'recent', 'heap', 'deleted from the heap; the lake trails'),
    ('delete', 'mirrored', 'historical', 'heap', 'deleted from the heap; the lake trails'),
    ('bulk load', 'mirrored', 'recent', 'heap', 'COPY into the heap; `thermocline ingest` is refused, because the heap is the source of truth'),
    ('labelled batch', 'mirrored', 'recent', 'heap', 'upserted in the heap'),
    ('read', 'mirrored', 'recent', 'heap', 'the heap; the lake up to F through the seam'),
    ('bulk load', 'mirrored', 'historical', 'heap', 'COPY into the heap; `thermocline ingest` is refused, because the heap is the source of truth'),
    ('labelled batch', 'mirrored', 'historical', 'heap', 'upserted in the heap'),
    ('read', 'mirrored', 'historical', 'heap', 'the heap; the lake up to F through the seam'),
    ('insert', 'mirrored with heap retention', 'recent', 'heap', 'a plain insert into the heap; the delta is not touched'),
    ('update', 'mirrored with heap retention', 'recent', 'heap', 'changed in place in the heap; the delta is not touched'),
    ('delete', 'mirrored with heap retention', 'recent', 'heap', 'deleted from the heap; the delta is not touched'),
    ('insert', 'mirrored with heap retention', 'historical', 'heap''s spill and delta', 'into the heap''s spill, where every constraint is checked, and from there into the delta'),
    ('update', 'mirrored with heap retention', 'historical', 'heap''s spill and delta', 'the new image goes through the spill into the delta and hides the lake''s row'),
    ('delete', 'mirrored with heap retention', 'historical', 'delta', 'a tombstone in the delta hides the lake''s row'),
    ('bulk load', 'mirrored with heap retention', 'historical', 'lake commit', '`thermocline ingest`: one lake commit, by key'),
    ('labelled batch', 'mirrored with heap retention', 'historical', 'delta', 'into the delta, or staged for a lake commit above the spool threshold'),
    ('read', 'mirrored with heap retention', 'historical', 'lake and delta', 'the lake at S, corrected by the delta'),
    ('bulk load', 'mirrored with heap retention', 'recent', 'heap', 'COPY into the heap; `thermocline ingest` refuses rows at or above T'),
    ('labelled batch', 'mirrored with heap retention', 'recent', 'heap', 'upserted in the heap'),
    ('read', 'mirrored with heap retention', 'recent', 'heap', 'the heap');

-- What explain needs to know of a table; as `thermocline.spanning`, only for tables the reader has some right on.
create view thermocline.spanning_detail with (security_barrier) as
select p.id, p.heap, p.seam, p.tier_key, t.key_type, t.object_name, p.pk,
       case when t.mode = 'tiered' and t.keep_heap then 'tiered keep-heap' else t.mode end as mode, t.keep_heap,
       c.t, c.s, c.r, c.seam_line,
       (select k.oid from pg_class k join pg_namespace n on n.oid = k.relnamespace
         where n.nspname = t.spill_schema and k.relname = t.spill_name) as spill,
       array(select n.relid from thermocline.partitions n where n.table_id = t.id and n.hi <= c.t and n.state <> 'dropped') as below
  from thermocline.spanning p
  join thermocline.tables t on t.id = p.id
  join thermocline.cutline c on c.table_id = p.id;
grant select on thermocline.spanning_detail to public;

create function thermocline.key_text(key_type text, place bigint) returns text
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select case key_type when 'date' then thermocline.key_date(place)::text
                         when 'timestamp without time zone' then thermocline.key_timestamp(place)::text
                         when 'timestamp with time zone' then thermocline.key_timestamptz(place)::text
                         else place::text end $$;

-- Postgres' plan of one statement, which is not run. A cursor takes one statement only, so a text with several is refused before any of
-- them begins; and what planning itself might do (a function that lies about being immutable) is kept from writing and rolled back.
create function thermocline.plan_of(statement text) returns jsonb
    language plpgsql volatile as $$
declare
    plan json;
    planned refcursor;
    options text := '(verbose, format json)';
begin
    if statement ~ '\$[0-9]' and current_setting('server_version_num')::integer >= 160000 then
        options := '(verbose, generic_plan, format json)';
    end if;
    begin
        perform pg_catalog.set_config('transaction_read_only', 'on', true);
        open planned no scroll for execute 'explain ' || options || ' ' || statement;
        fetch planned into plan;
        close planned;
        raise exception 'planned' using errcode = 'TCEXP';
    exception when sqlstate 'TCEXP' then
        return plan::jsonb;
    end;
end $$;

-- The statement in pieces, put together again they are the statement: quoted texts and names in one piece each, space and comments too.
-- None where a quote is one we cannot follow.
create function thermocline.sql_pieces(statement text) returns text[]
    language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select case when statement ~ '\$[[:alpha:]_]\w*\$' then null else array(
        select m[1] from regexp_matches(statement,
            '([eE]''(?:[^''\\]|\\.|'''')*''|''(?:[^'']|'''')*''|"(?:[^"]|"")*"|\$\$(?:[^$]|\$(?!\$))*\$\$|--[^\n]*'
            '|/\*(?:[^*]|\*(?!/))*\*/|\s+|[0-9.]+(?:[eE][+-]?[0-9]+)?|[[:alpha:]_][\w$]*|.)',
            'g') with ordinality as w(m, place) order by place) end $$;

-- Its words, without space and comments.
create function thermocline.sql_words(statement text) returns text[]
    language sql immutable strict set search_path = pg_catalog, pg_temp as $$
    select array_agg(w order by place) from unnest(thermocline.sql_pieces(statement)) with ordinality p(w, place)
     where w !~ '^(\s+|--.*|/\*.*)$' $$;

-- What stands in the first pair of parentheses.
create function thermocline.in_parentheses(statement text) returns text
    language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    piece text;
    depth integer := 0;
    inner_text text := '';
begin
    foreach piece in array coalesce(thermocline.sql_pieces(statement), '{}') loop
        if piece = ')' then depth := depth - 1; end if;
        exit when depth = 0 and piece = ')';
        if depth > 0 then inner_text := inner_text || piece; end if;
        if piece = '(' then depth := depth + 1; end if;
    end loop;
    return inner_text;
end $$;

-- The parts of a condition as EXPLAIN writes it that all have to hold: `((a) AND (b))` gives a and b.
create function thermocline.conjuncts(condition text) returns setof text
    language plpgsql immutable strict set search_path = pg_catalog, pg_temp as $$
declare
    word text;
    depth integer := 0;
    part text := '';
    parts text[] := '{}';
    piece text;
begin
    for word in select m[1] from regexp_matches(condition, '(''(?:[^'']|'''')*''|"(?:[^"]|"")*"|\s+|\w+|.)', 'g') m loop
        if word = ')' then depth := depth - 1; end if;
        if depth = 1 and word = 'AND' then
            parts := parts || part;
            part := '';
        elsif not (depth = 0 and word in ('(', ')')) then
            part := part || word;
        end if;
        if word = '(' then depth := depth + 1; end if;
        -- Two conditions side by side at the outermost level, and no single pair of parentheses around them.
        if depth = 0 and word not in (')', '(') and word !~ '^\s+$' then return; end if;
    end loop;
    foreach piece in array parts || part loop
        piece := btrim(piece);
        return next case when piece ~ '^\(.*\)$' then substr(piece, 2, length(piece) - 2) else piece end;
    end loop;
end $$;

-- The tightest ends that conditions set for the tier key, on the axis: from `low` to `high`, both included, with the words that say so.
create function thermocline.key_ends(conditions text[], tier_key text, key_type text, out low bigint, out low_said text,
                                     out high bigint, out high_said text)
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    part text;
    said text[];
    place bigint;
    kinds text := case when key_type in ('smallint', 'integer', 'bigint') then 'smallint|integer|bigint' else key_type end;
begin
    for part in select c from unnest(conditions) u cross join lateral thermocline.conjuncts(u) c loop
        said := regexp_match(part, '^(?:(?:\w+|"(?:[^"]|"")*")\.)?' || regexp_replace(quote_ident(tier_key), '([^\w])', '\\\1', 'g')
                                   || ' (>=|>|<=|<|=) (?:''([^'']*)''::(?:' || kinds || ')|([0-9]+))$');
        continue when said is null;
        execute format('select thermocline.axis(%L::%s)', coalesce(said[2], said[3]), key_type) into place;
        part := regexp_replace(part, '^(?:\w+|"(?:[^"]|"")*")\.', '');
        if said[1] in ('>=', '>', '=') and place + (said[1] = '>')::integer > coalesce(low, -9223372036854775808) then
            low := place + (said[1] = '>')::integer;
            low_said := part;
        end if;
        if said[1] in ('<=', '<', '=') and place - (said[1] = '<')::integer < coalesce(high, 9223372036854775807) then
            high := place - (said[1] = '<')::integer;
            high_said := part;
        end if;
    end loop;
end $$;

-- The tier keys of `INSERT … VALUES` on the axis, one per row, null where a row's is not a constant; null for any other statement.
create function thermocline.literal_keys(statement text, target thermocline.spanning_detail) returns bigint[]
    language plpgsql volatile as $$
declare
    words text[] := thermocline.sql_words(statement);
    word text;
    at integer := 3;
    depth integer := 0;
    names text[];
    items text[] := '{}';
    item text := '';
    wanted integer;
    found_keys text[] := '{}';
    outputs jsonb;
begin
    if words is null or lower(words[1]) <> 'insert' then return null; end if;
    while words[at + 1] = '.' loop at := at + 2; end loop;
    at := at + 1;
    if lower(words[at]) = 'as' then at := at + 2; end if;
    if words[at] = '(' and lower(words[at + 1]) not in ('select', 'with', 'values', 'table') then
        while words[at] <> ')' loop
            at := at + 1;
            if words[at] not in (',', ')') then
                names := names || case when words[at] like '"%' then replace(btrim(words[at], '"'), '""', '"') else lower(words[at]) end;
            end if;
        end loop;
        at := at + 1;
    end if;
    if lower(words[at]) = 'overriding' then at := at + 3; end if;
    if lower(words[at]) is distinct from 'values' then return null; end if;
    names := coalesce(names, array(select a.attname::text from pg_catalog.pg_attribute a
        where a.attrelid = target.heap and a.attnum > 0 and not a.attisdropped order by a.attnum));
    wanted := pg_catalog.array_position(names, target.tier_key);
    foreach word in array words[at + 1:] loop
        if depth = 0 and word not in ('(', ',') then exit; end if;
        if word in (')', ']') then depth := depth - 1; end if;
        if depth = 0 and word = ')' then
            items := items || item;
            found_keys := found_keys || case when lower(btrim(items[wanted])) = 'default' then 'null' else coalesce(items[wanted], 'null') end;
            items := '{}';
            item := '';
        elsif depth = 1 and word = ',' then
            items := items || item;
            item := '';
        elsif depth > 0 then
            item := item || ' ' || word;
        end if;
        if word in ('(', '[') then depth := depth + 1; end if;
        exit when pg_catalog.cardinality(found_keys) > 1000;
    end loop;
    if pg_catalog.cardinality(found_keys) not between 1 and 1000 then return null; end if;
    select thermocline.plan_of('select ' || string_agg(format('thermocline.axis((%s)::%s)', k, target.key_type), ', ')) #> '{0,Plan,Output}'
      into outputs from unnest(found_keys) k;
    return array(select (regexp_match(o, '^''(-?[0-9]+)''::bigint$'))[1]::bigint
                   from pg_catalog.jsonb_array_elements_text(outputs) with ordinality x(o, place) order by place);
end $$;

-- The scans and writes of a plan that concern spanning tables, one row each.
create function thermocline.plan_parts(plan jsonb)
    returns table (id bigint, part text, relation text, operation text, conditions text[], remote_sql text, is_through_seam boolean,
                   is_below boolean)
    language sql stable set search_path = pg_catalog, pg_temp as $$
    with nodes as materialized (
        select n ->> 'Schema' as schema_name, n ->> 'Relation Name' as name, n ->> 'Node Type' as kind, lower(n ->> 'Operation') as operation,
               array_remove(array[n ->> 'Index Cond', n ->> 'Recheck Cond', n ->> 'Filter'], null) as conditions, n ->> 'Remote SQL' as remote_sql
          from jsonb_path_query(plan, 'strict $.** ? (exists (@."Node Type") && exists (@."Relation Name"))') n)
    select * from (
    select d.id, case when n.kind = 'ModifyTable' then 'write' when n.schema_name = 'thermocline_lake' then 'lake'
                      when n.schema_name = 'thermocline_delta' and n.name = d.object_name then 'delta'
                      when c.oid = d.spill then 'spill' else 'heap' end,
           n.name, n.operation, n.conditions, n.remote_sql,
           c.oid = d.seam or n.name = d.object_name
               or array_to_string(n.conditions, ' ') ~ (quote_ident(d.tier_key) || ' >= (\$[0-9]+|\(InitPlan [0-9]+\)\.col1)') as is_through_seam,
           c.oid = any (d.below) and n.kind <> 'ModifyTable' as is_below
      from nodes n
      join pg_namespace s on s.nspname = n.schema_name
      join pg_class c on c.relnamespace = s.oid and c.relname = n.name
      join thermocline.spanning_detail d
        on c.oid in (d.heap, d.seam) or (n.name = d.object_name and n.schema_name in ('thermocline_lake', 'thermocline_delta'))
           or (c.relispartition and pg_partition_root(c.oid) = d.heap)
       -- The look into the delta that hides a corrected row of the lake is part of the lake's arm.
     where n.name <> d.object_name or n.schema_name <> 'thermocline_delta' or array_to_string(n.conditions, ' ') ~ '\m_op = 0') found
     -- A partition below T is in the plan and left out when it runs.
     where not (found.is_through_seam and found.is_below) $$;

create function thermocline.explain_table(detail thermocline.spanning_detail, plan jsonb, seam boolean, verb text, keys bigint[])
    returns jsonb language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    operation text := verb;
    heaps text[] := '{}';
    lakes text[] := '{}';
    has_spill boolean := false;
    has_delta boolean := false;
    may_be_hot boolean := false;
    may_be_cold boolean := false;
    ends record;
    part record;
    deciding text;
    high_said text;
    rows jsonb;
    refusal text;
    warnings text[] := '{}';
begin
    for part in select * from thermocline.plan_parts(plan) p where p.id = detail.id and p.is_through_seam = seam loop
        ends := thermocline.key_ends(part.conditions, detail.tier_key, detail.key_type);
        case part.part
            when 'write' then operation := part.operation;
            when 'lake' then
                lakes := lakes || part.remote_sql;
            when 'delta' then
                has_delta := true;
                may_be_cold := may_be_cold or ends.low is null or ends.low < detail.t;
                high_said := coalesce(high_said, ends.high_said);
            else
                if part.part = 'spill' then has_spill := true; else heaps := heaps || part.relation; end if;
                may_be_hot := may_be_hot or ends.high is null or ends.high >= detail.t;
                high_said := coalesce(high_said, ends.high_said);
                deciding := coalesce(deciding, ends.low_said);
        end case;
    end loop;
    if operation = 'insert' then
        may_be_hot := keys is null or exists (select from unnest(keys) k where k is null or k >= detail.t);
        may_be_cold := keys is null or exists (select from unnest(keys) k where k is null or k < detail.t);
        deciding := case when keys is not null then 'the literal rows' end;
        if keys is not null then
            select jsonb_build_object('recent', count(*) filter (where k >= detail.t), 'historical',
                       count(*) filter (where k < detail.t and k >= coalesce(detail.r, k)), 'expired', count(*) filter (where k < detail.r),
                       'unknown', count(*) filter (where k is null)) into rows from unnest(keys) k;
            if (rows ->> 'expired')::bigint > 0 then
                refusal := format('%s rows lie below the retention line %s of %s: rows this old were expired on purpose', rows ->> 'expired',
                                  thermocline.key_text(detail.key_type, detail.r), detail.heap);
            end if;
        end if;
        if seam and plan @? '$.**."Conflict Resolution"' then
            refusal := format('ON CONFLICT does not work on the seam: use the heap''s own name %s, thermocline.upsert() or'
                              ' thermocline.insert_if_absent()', detail.heap);
        end if;
    elsif not seam then
        may_be_hot := true;
        may_be_cold := detail.keep_heap;
        if not detail.keep_heap then
            warnings := warnings || format('%s names the heap alone: rows below T that only the lake holds are neither read nor changed;'
                                           ' %s spans both tiers', detail.heap, detail.seam);
        end if;
    end if;
    if not may_be_hot then deciding := coalesce(high_said, deciding); end if;
    if seam and plan @? '$.** ? (@."Node Type" == "LockRows")' then
        warnings := warnings || format('FOR UPDATE and FOR SHARE take no row locks on the seam; use thermocline.lock_rows() or lock rows of %s',
                                       detail.heap);
    end if;
    return jsonb_build_object(
        'table', detail.heap::text, 'named', case when seam then 'seam' else 'heap' end, 'seam', detail.seam::text, 'mode', detail.mode,
        'operation', operation, 'tier_key', detail.tier_key,
        'verdict', case when not seam and operation <> 'insert' then 'heap alone' when may_be_hot and may_be_cold then 'may touch both'
                        when may_be_hot then 'provably hot' when may_be_cold then 'provably cold' else 'no row' end,
        'deciding', case when may_be_hot <> may_be_cold then deciding end,
        't', thermocline.key_text(detail.key_type, detail.t), 's', detail.s, 'r', thermocline.key_text(detail.key_type, detail.r),
        'seam_line', thermocline.key_text(detail.key_type, detail.seam_line),
        'heap', to_jsonb(heaps), 'spill', has_spill, 'lake', to_jsonb(lakes), 'delta', has_delta,
        'paths', thermocline.explain_paths(operation, detail.mode, may_be_hot, may_be_cold),
        'rows', rows, 'refusal', refusal, 'warnings', to_jsonb(warnings));
end $$;

create function thermocline.explain_paths(operation text, mode text, may_be_hot boolean, may_be_cold boolean) returns jsonb
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(jsonb_agg(jsonb_build_object('operation', r.operation, 'side', r.side, 'path', r.path, 'sentence', r.sentence)
                              order by r.operation, r.side desc), '[]')
      from thermocline.routes r
     where r.mode = $2 and ((may_be_hot and r.side = 'recent') or (may_be_cold and r.side = 'historical'))
       and r.operation = any (case $1 when 'select' then array['read'] when 'merge' then array['insert', 'update', 'delete'] else array[$1] end) $$;

-- The verb of a statement, and what Postgres can plan of it: a COPY has no plan, but its query has.
create function thermocline.explainable(statement text, out verb text, out query text, out target regclass)
    language plpgsql stable as $$
declare
    words text[] := thermocline.sql_words(statement);
    at integer := 3;
begin
    verb := lower((regexp_match(statement, '^(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/|\()*([[:alpha:]]+)'))[1]);
    query := statement;
    if verb in ('values', 'table') then verb := 'select'; end if;
    if verb = 'copy' and words[2] = '(' then
        query := thermocline.in_parentheses(statement);
        verb := 'select';
    elsif verb = 'copy' then
        while words[at] = '.' loop at := at + 2; end loop;
        target := array_to_string(words[2:at - 1], '')::regclass;
        if words[at] = '(' then at := at + array_position(words[at:], ')'); end if;
        verb := case lower(words[at]) when 'from' then 'copy from' when 'to' then 'copy to' else verb end;
        query := null;
    elsif verb is null or verb not in ('select', 'insert', 'update', 'delete', 'merge', 'with') then
        raise exception 'only SELECT, INSERT, UPDATE, DELETE, MERGE and COPY can be explained, not %', coalesce(upper(verb), 'nothing')
            using errcode = 'feature_not_supported';
    end if;
end $$;

create function thermocline.explain_copy(verb text, target regclass) returns jsonb
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    detail thermocline.spanning_detail;
    is_seam boolean;
    reading jsonb;
    report jsonb;
begin
    select * into detail from thermocline.spanning_detail d where target in (d.heap, d.seam);
    if not found then return '[]'; end if;
    is_seam := target = detail.seam;
    reading := jsonb_build_array(jsonb_build_object('Plan', jsonb_build_object('Node Type', 'Seq Scan', 'Schema',
        (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = target),
        'Relation Name', (select c.relname from pg_class c where c.oid = target))));
    report := thermocline.explain_table(detail, reading, is_seam, case verb when 'copy from' then 'insert' else 'select' end, null);
    if verb = 'copy to' and is_seam then
        report := report || jsonb_build_object('verdict', 'refused', 'paths', '[]'::jsonb, 'heap', '[]'::jsonb,
            'refusal', format('Postgres copies no rows out of a view: use COPY (SELECT * FROM %s) TO', detail.seam));
    end if;
    return jsonb_build_array(report);
end $$;

create function thermocline.explain_json(statement text) returns jsonb
    language plpgsql volatile as $$
declare
    parsed record := thermocline.explainable(statement);
    plan jsonb;
    tables jsonb;
    refusal jsonb;
    code text;
    sentence text;
begin
    if parsed.verb in ('copy from', 'copy to') then
        return jsonb_build_object('statement', parsed.verb, 'tables', thermocline.explain_copy(parsed.verb, parsed.target), 'refusal', null);
    end if;
    begin
        plan := thermocline.plan_of(parsed.query);
    exception
        when syntax_error then
            raise;
        when invalid_cursor_definition then
            raise exception 'only one statement can be explained at a time' using errcode = 'feature_not_supported';
        when others then
            get stacked diagnostics code = returned_sqlstate, sentence = message_text;
            refusal := jsonb_build_object('sqlstate', code, 'sentence', sentence);
            return jsonb_build_object('statement', parsed.verb, 'tables', '[]'::jsonb, 'refusal', refusal);
    end;
    select coalesce(jsonb_agg(thermocline.explain_table(d, plan, u.is_through_seam, case parsed.verb when 'with' then 'select' else parsed.verb end,
                                                        thermocline.literal_keys(parsed.query, d)) order by d.heap::text), '[]')
      into tables
      from (select distinct p.id, p.is_through_seam from thermocline.plan_parts(plan) p) u
      join thermocline.spanning_detail d on d.id = u.id;
    return jsonb_build_object('statement', parsed.verb, 'tables', tables, 'refusal', null);
end $$;
comment on function thermocline.explain_json(text) is 'What thermocline.explain() says, as one document.';

create function thermocline.explain(statement text) returns setof text
    language plpgsql volatile as $$
declare
    report jsonb := thermocline.explain_json(statement);
    x jsonb;
    line text;
begin
    if report -> 'refusal' <> 'null' then
        return next format('refused by Postgres (%s): %s', report #>> '{refusal,sqlstate}', report #>> '{refusal,sentence}');
    elsif report -> 'tables' = '[]' then
        return next 'no spanning table is touched';
    end if;
    for x in select t from jsonb_array_elements(report -> 'tables') t loop
        return next format('%s on %s (%s), named by its %s', x ->> 'operation', x ->> 'table', x ->> 'mode', x ->> 'named');
        return next format('  %s%s', x ->> 'verdict', coalesce(': ' || (x ->> 'deciding'), ''));
        return next format('  T = %s, S = %s, R = %s', x ->> 't', coalesce(x ->> 's', 'none'), coalesce(x ->> 'r', 'none'));
        if x -> 'rows' <> 'null' then
            return next format('  rows: %s recent, %s historical, %s below the retention line, %s not known before it runs',
                               x #>> '{rows,recent}', x #>> '{rows,historical}', x #>> '{rows,expired}', x #>> '{rows,unknown}');
        end if;
        if x ->> 'operation' <> 'insert' then
            return next format('  heap: %s; spill: %s; lake: %s; delta: %s',
                coalesce(nullif((select string_agg(h, ', ') from jsonb_array_elements_text(x -> 'heap') h), ''), 'not read'),
                case when (x ->> 'spill')::boolean then 'read' else 'not read' end,
                case jsonb_array_length(x -> 'lake') when 0 then 'not asked' else 'asked' end,
                case when (x ->> 'delta')::boolean then 'read' else 'not read' end);
        end if;
        for line in select format('  %s rows, %s: %s', p ->> 'side', p ->> 'operation', p ->> 'sentence') from jsonb_array_elements(x -> 'paths') p loop
            return next line;
        end loop;
        for line in select '  warning: ' || w from jsonb_array_elements_text(x -> 'warnings') w loop
            return next line;
        end loop;
        if x ->> 'refusal' is not null then return next '  refused: ' || (x ->> 'refusal'); end if;
    end loop;
end $$;
comment on function thermocline.explain(text) is
    'Says, running nothing, which tiers a statement touches, why, and where its rows would go.';

-- The advisory lock that the seam's functions take on a key that only the lake holds (`key_lock` in seam/objects.py).
create function thermocline.lock_key(target thermocline.spanning, key jsonb) returns void
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    hashed bigint;
begin
    execute format('select hash_record_extended(row(%s), $2) from jsonb_populate_record(null::%s, $1) r',
                   (select string_agg(format('r.%I', k), ', ' order by place) from unnest(target.pk) with ordinality p(k, place)), target.heap)
       into hashed using key, target.id;
    perform pg_advisory_xact_lock(hashed);
exception when undefined_function then
    perform pg_advisory_xact_lock(746101, target.id::integer); -- a key type that cannot be hashed: one lock for the table
end $$;

create function thermocline.lock_rows(target regclass, keys jsonb) returns setof text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    key jsonb;
    is_there boolean;
begin
    if jsonb_typeof(keys) = 'object' then keys := jsonb_build_array(keys); end if;
    if jsonb_typeof(keys) is distinct from 'array' then
        raise exception 'thermocline.lock_rows takes a key, or an array of keys' using errcode = 'invalid_parameter_value';
    end if;
    -- In one order for everybody, so that two who lock the same rows do not wait for each other.
    for key in select k from jsonb_array_elements(keys) k order by k loop
        perform thermocline.check_fields('lock_rows', spanning.heap, key, spanning.pk);
        execute format('select true from %s h where %s for update', spanning.heap, thermocline.key_condition(spanning, key, 'h')) into is_there;
        if is_there then
            return next 'heap';
            continue;
        end if;
        perform thermocline.lock_key(spanning, key);
        execute format('select exists (select from %s s where %s)', spanning.seam, thermocline.key_condition(spanning, key, 's')) into is_there;
        return next case when is_there then 'lake' end;
    end loop;
end $$;
comment on function thermocline.lock_rows(regclass, jsonb) is
    'Locks rows by their keys until the transaction ends, in whichever tier they are: heap or lake; null for a key without a row.';

create function thermocline.delete(target regclass, key jsonb, tier_key text) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    others text[] := array_remove(spanning.pk, spanning.tier_key);
begin
    if jsonb_typeof(key) is distinct from 'object' then
        if cardinality(others) <> 1 then
            raise exception 'the key of % has several fields, (%): thermocline.delete needs an object with all of them', spanning.heap,
                array_to_string(spanning.pk, ', ') using errcode = 'invalid_parameter_value';
        end if;
        key := jsonb_build_object(others[1], key);
    end if;
    return thermocline.delete(target, key || jsonb_build_object(spanning.tier_key, tier_key));
end $$;
comment on function thermocline.delete(regclass, jsonb, text) is
    'Deletes the row with this key and tier key; the key is a plain value where one field makes it up, else an object with all its fields.';

-- The lake version that was published at a moment, for who may read all of the table; refuses with the oldest moment there is.
create function thermocline.version_at(target regclass, moment timestamptz, out heap regclass, out lake text, out snapshot_id bigint)
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    wanted bigint;
    oldest timestamptz;
begin
    select p.id, p.heap_oid::regclass, format('thermocline_lake.%I', p.object_name) into wanted, heap, lake from thermocline.tables p
      cross join lateral (select to_regclass(format('%I.%I', p.seam_schema, p.table_name)) as seam) s
     where target in (p.heap_oid, s.seam) and has_table_privilege(thermocline.calling_role(), s.seam, 'select');
    if not found then
        raise exception '% is not a table that spans Postgres and the lake', target
            using errcode = 'undefined_table', hint = 'Name a registered table or its seam that you may read.';
    end if;
    select p.snapshot_id into snapshot_id from thermocline.published p
     where p.table_id = wanted and p.at <= moment order by p.at desc limit 1;
    if not found then
        select min(p.at) into oldest from thermocline.published p where p.table_id = wanted;
        raise exception 'there is no lake version of % from before %', heap, moment using errcode = 'invalid_parameter_value',
            hint = coalesce('The oldest one is from ' || oldest || '.', 'The lake of this table holds nothing yet.');
    end if;
end $$;

create function thermocline.as_of(target regclass, moment timestamptz, tiers text default 'lake') returns setof jsonb
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    version record := thermocline.version_at(target, moment);
    columns text;
begin
    if tiers = 'both' then
        raise exception 'what Postgres held of % at an earlier moment is not kept: its mode is %, where the lake gets whole partitions and folds',
            version.heap, (select d.mode from thermocline.spanning_detail d where d.heap = version.heap) using errcode = 'feature_not_supported',
            hint = 'Missing is every change in the lake, as a mirrored table or one with a change log has it. '
                   'thermocline.as_of(table, moment) gives the lake''s side.';
    elsif tiers is distinct from 'lake' then
        raise exception 'tiers are ''lake'' or ''both'', not %', coalesce(quote_literal(tiers), 'null') using errcode = 'invalid_parameter_value';
    end if;
    -- The lake's text forms become the table's own types again, as in the seam.
    select string_agg(format('l.%1$I::%2$s as %1$I', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
      into columns
      from pg_attribute a
      join pg_attribute f on f.attrelid = version.lake::regclass and f.attname = a.attname and f.attnum > 0 and not f.attisdropped
     where a.attrelid = version.heap and a.attnum > 0 and not a.attisdropped;
    return query execute format('select to_jsonb(r) from (select %s from %s l where l._snapshot = $1) r', columns, version.lake)
        using version.snapshot_id;
end $$;
comment on function thermocline.as_of(regclass, timestamptz, text) is
    'The rows of the lake as it was published at a moment; rows that Postgres held then, and corrections not folded by then, are not among them.';
