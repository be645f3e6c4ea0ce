-- Functions for users, and what the seam's own functions call.

-- Whether a row version that we can see was made by this very transaction (a savepoint's included): everybody else's is finished.
create function thermocline.is_ours(made_by xid) returns boolean
    language plpgsql volatile strict set search_path = pg_catalog as $$
declare
    top bigint := pg_current_xact_id()::text::bigint;
    ahead bigint := (made_by::text::bigint - top) & 4294967295;
begin
    -- xmin has no epoch: it is the nearest transaction with these 32 bits. A savepoint's lies ahead of its transaction's.
    if ahead >= 2147483648 then ahead := ahead - 4294967296; end if;
    return coalesce(pg_xact_status((top + ahead)::text::xid8) = 'in progress', false);
exception when invalid_parameter_value then
    return false; -- so old that it was frozen
end $$;

-- Whether two rows of other bytes read the same: a value that went through the lake may have lost the sign of a NaN or an array's unused
-- bitmap of NULLs. Asked only where the bytes differ.
create function thermocline.reads_same(one record, other record) returns boolean
    language plpgsql stable strict set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' set intervalstyle = 'postgres'
    set bytea_output = 'hex' set extra_float_digits = 1 as $$
begin
    return one::text collate "C" = other::text collate "C";
end $$;

-- Whether a row trigger of the user's may keep a row of this table, or of a partition of it, from being written.
create function thermocline.has_before_trigger(heap regclass) returns boolean
    language sql stable strict set search_path = pg_catalog as $$
    select exists (select from pg_trigger t where t.tgrelid in (select relid from pg_partition_tree(heap))
                      and not t.tgisinternal and t.tgtype & 3 = 3 and t.tgenabled <> 'D') $$;

-- What a role may know of the registered tables: those it has some right on. A view, so `has_table_privilege` asks about the reader.
create view thermocline.spanning with (security_barrier) as
select t.id, t.heap_oid::regclass as heap, s.seam, t.pk, t.tier_key, c.t, c.s
  from thermocline.tables t
  join thermocline.cutline c on c.table_id = t.id
  cross join lateral (select to_regclass(format('%I.%I', t.seam_schema, t.table_name)) as seam) s
 where has_table_privilege(t.heap_oid, 'select, insert, update, delete') or has_any_column_privilege(t.heap_oid, 'select, insert, update')
    or has_table_privilege(s.seam, 'select, insert, update, delete') or has_any_column_privilege(s.seam, 'select, insert, update');
grant usage on schema thermocline to public;
grant select on thermocline.spanning to public;

-- The functions below run with the caller's rights: Postgres itself checks them on the heap and on the seam.

create function thermocline.spanning_table(target regclass) returns thermocline.spanning
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    found_table thermocline.spanning;
begin
    select * into found_table from thermocline.spanning p where target in (p.heap, p.seam);
    if not found then
        raise exception '% is not a table that spans Postgres and the lake', target
            using errcode = 'undefined_table', hint = 'Name a registered table or its seam that you have a right on.';
    end if;
    return found_table;
end $$;

-- Refuses fields that are no columns, and names a required one that is missing.
create function thermocline.check_fields(verb text, heap regclass, fields jsonb, required text[]) returns void
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    culprit text;
begin
    if jsonb_typeof(fields) is distinct from 'object' then
        raise exception 'thermocline.% takes a JSON object', verb using errcode = 'invalid_parameter_value';
    end if;
    select f into culprit from jsonb_object_keys(fields) f
     where not exists (select from pg_attribute a where a.attrelid = heap and a.attname = f and a.attnum > 0 and not a.attisdropped) limit 1;
    if found then
        raise exception 'column "%" of % does not exist', culprit, heap using errcode = 'undefined_column';
    end if;
    select r into culprit from unnest(required) r where not fields ? r limit 1;
    if found then
        raise exception 'thermocline.% on % needs the field "%"', verb, heap, culprit using errcode = 'not_null_violation', column = culprit;
    end if;
end $$;

create function thermocline.required_fields(heap regclass, key text[]) returns text[]
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select coalesce(array_agg(a.attname::text order by a.attnum), '{}') from pg_attribute a
     where a.attrelid = heap and a.attnum > 0 and not a.attisdropped and (a.attnotnull or a.attname = any (key))
       and not a.atthasdef and a.attidentity = '' and a.attgenerated = '' $$;

-- `k1 = 'v1' and k2 = 'v2'` with the index's own equality and literals, so that the planner can leave a tier out.
create function thermocline.key_condition(target thermocline.spanning, fields jsonb, alias text) returns text
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    condition text;
begin
    select string_agg(format('%I.%I operator(%I.%s) %L::%s', alias, k.name, n.nspname, o.oprname, fields ->> k.name,
                             format_type(a.atttypid, a.atttypmod)), ' and ' order by k.place)
      into condition
      from unnest(target.pk) with ordinality k(name, place)
      join pg_attribute a on a.attrelid = target.heap and a.attname = k.name
      join pg_type y on y.oid = a.atttypid
      join pg_opclass oc on oc.oid = (
               select u.opclass from pg_index i
                cross join lateral unnest(i.indkey::int2[], i.indclass::oid[]) u(attnum, opclass)
                where i.indrelid = target.heap and i.indisunique and u.attnum = a.attnum order by i.indisprimary desc limit 1)
      join pg_amop ao on ao.amopfamily = oc.opcfamily and ao.amopstrategy = 3
           and ao.amoplefttype = oc.opcintype and ao.amoprighttype = oc.opcintype
      join pg_operator o on o.oid = ao.amopopr
      join pg_namespace n on n.oid = o.oprnamespace;
    return condition;
end $$;

create function thermocline.write_row(verb text, target regclass, fields jsonb) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    given text;
    replaced text;
    is_hot boolean;
begin
    perform thermocline.check_fields(verb, spanning.heap, fields, thermocline.required_fields(spanning.heap, spanning.pk));
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) filter (where fields ? a.attname),
           string_agg(format('%1$I = excluded.%1$I', a.attname), ', ' order by a.attnum)
               filter (where a.attgenerated = '' and a.attidentity <> 'a' and not a.attname = any (spanning.pk)
                             and (a.attidentity = '' or fields ? a.attname))
      into given, replaced
      from pg_attribute a where a.attrelid = spanning.heap and a.attnum > 0 and not a.attisdropped;
    -- A key of nothing but key columns has nothing to replace; setting one to itself still says where the row is.
    replaced := coalesce(replaced, format('%1$I = excluded.%1$I', spanning.tier_key));
    execute format('insert into %1$s as h (%2$s) select %2$s from jsonb_populate_record(null::%1$s, $1) on conflict (%3$s) do %4$s'
                   ' returning thermocline.axis(h.%5$I) >= (select p.t from thermocline.spanning p where p.id = $2)',
                   spanning.heap, given, (select string_agg(quote_ident(k), ', ') from unnest(spanning.pk) k),
                   case verb when 'upsert' then 'update set ' || replaced else 'nothing' end, spanning.tier_key)
       into is_hot using fields, spanning.id;
    return case when is_hot then 'hot' when not is_hot then 'delta' end;
end $$;

create function thermocline.upsert(target regclass, fields jsonb) returns text
    language sql volatile set search_path = pg_catalog, pg_temp as $$ select thermocline.write_row('upsert', target, fields) $$;
comment on function thermocline.upsert(regclass, jsonb) is
    'Writes a whole row, in place of one with its key; fields left out take their defaults. Says where it went: hot or delta.';

create function thermocline.insert_if_absent(target regclass, fields jsonb) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    is_there boolean;
    went text;
begin
    perform thermocline.check_fields('insert_if_absent', spanning.heap, fields, spanning.pk);
    execute format('select exists (select from %s s where %s)', spanning.seam, thermocline.key_condition(spanning, fields, 's')) into is_there;
    if is_there then return null; end if;
    went := thermocline.write_row('insert_if_absent', target, fields);
    -- A fold between the look and the write may have carried the same key from the spill into the lake.
    if went = 'delta' and (select p.s from thermocline.spanning p where p.id = spanning.id) is distinct from spanning.s then
        raise exception 'could not serialize access: the lake changed while a row of % was looked up', spanning.heap
            using errcode = 'serialization_failure', hint = 'Run the transaction again.';
    end if;
    return went;
end $$;
comment on function thermocline.insert_if_absent(regclass, jsonb) is
    'Writes a row unless either tier holds its key. Says where it went, hot or delta; null when the key was there.';

create function thermocline.delete(target regclass, key jsonb) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    is_hot boolean;
begin
    perform thermocline.check_fields('delete', spanning.heap, key, spanning.pk);
    if exists (select from jsonb_object_keys(key) f where not f = any (spanning.pk)) then
        raise exception 'thermocline.delete takes the key of %, (%), and nothing else', spanning.heap, array_to_string(spanning.pk, ', ')
            using errcode = 'invalid_parameter_value';
    end if;
    execute format('delete from %s s where %s returning thermocline.axis(s.%I) >= (select p.t from thermocline.spanning p where p.id = $1)',
                   spanning.seam, thermocline.key_condition(spanning, key, 's'), spanning.tier_key)
       into is_hot using spanning.id;
    return case when is_hot then 'hot' when not is_hot then 'delta' end;
end $$;
comment on function thermocline.delete(regclass, jsonb) is
    'Deletes the row with this key from whichever tier holds it: hot or delta; null when there is no such row.';
