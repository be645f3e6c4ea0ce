-- Changes of the heap's columns, followed: what is known of each column in the lake, the templates of the seam, and the functions that
-- rebuild delta, foreign table, routing functions and view in the transaction of the ALTER TABLE itself. docs/decisions/0014 tells why here.

alter table thermocline.tables
    add column shape text,
    add column schema_version integer not null default 1,
    add column last_field_id integer not null default 0,
    add column lake_behind boolean not null default false;
comment on column thermocline.tables.shape is 'The heap''s columns as the seam was built for them; another shape has to be followed.';
comment on column thermocline.tables.lake_behind is 'The lake''s schema and the foreign table lag behind the columns; the next cycle brings them up.';

alter table thermocline.columns
    add column missing text,
    add column absent boolean not null default false,
    add column held_as text,
    add column expression text,
    add column expression_tree text,
    drop constraint columns_table_id_name_key,
    add constraint columns_table_id_name_key unique (table_id, name) deferrable initially deferred;
comment on column thermocline.columns.missing is 'What rows written before the column existed read as, in Postgres'' text form; null is NULL.';
comment on column thermocline.columns.absent is 'The lake''s schema has no such column yet: every lake row reads as `missing`.';
comment on column thermocline.columns.held_as is 'The type the foreign table still has, while it is not the column''s own.';
comment on column thermocline.columns.expression is 'Of a generated column, as values in the lake were computed by it; null for others.';
comment on column thermocline.columns.expression_tree is
    'The same as Postgres keeps it, by numbers: it stays while columns and functions are renamed, the text stays where a dump is restored.';

create table thermocline.templates (name text primary key, body text not null);
comment on table thermocline.templates is 'The seam''s statements with {places} to fill in, as the program that registered last carries them.';

create table thermocline.enum_labels (label_oid oid primary key, label text not null);
comment on table thermocline.enum_labels is
    'The values of enums that registered tables use, as lake files spell them: a value that is renamed would not be read back.';

create table thermocline.type_shapes (type_oid oid primary key, shape text[] not null);
comment on table thermocline.type_shapes is
    'Composites and domains that registered tables use, as they were when lake files may have been written: the values must still be read back.';

-- The types that a table's columns hold, within arrays, domains, ranges and composites too.
create function thermocline.types_of(of_table bigint) returns setof oid
    language sql stable set search_path = pg_catalog as $$
    with recursive held(type_oid) as (
        select a.atttypid from thermocline.tables t join pg_attribute a on a.attrelid = t.heap_oid and a.attnum > 0 and not a.attisdropped
         where t.id = of_table
        union
        select part.type_oid from held h join pg_type y on y.oid = h.type_oid cross join lateral (
            select y.typbasetype as type_oid union all select y.typelem
            union all select r.rngsubtype from pg_range r where r.rngtypid = y.oid
            union all select r.rngtypid from pg_range r where r.rngmultitypid = y.oid
            union all select a.atttypid from pg_attribute a where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped) part
         where part.type_oid <> 0)
    select h.type_oid from held h $$;

-- What a value's text form depends on: the attributes of a composite by number and type, the constraints of a domain.
create function thermocline.type_shape(of_type oid) returns text[]
    language sql stable set search_path = pg_catalog as $$
    select case y.typtype
           when 'c' then array(select concat(a.attnum, ' ', format_type(a.atttypid, a.atttypmod)) from pg_attribute a
                                where a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum)
           when 'd' then array(select regexp_replace(pg_get_constraintdef(k.oid), ' NOT VALID$', '') from pg_constraint k
                                where k.contypid = y.oid and k.contype = 'c'
                               union all select 'NOT NULL' where y.typnotnull order by 1) end
      from pg_type y where y.oid = of_type $$;

create function thermocline.note_types(of_table bigint) returns void
    language sql volatile set search_path = pg_catalog as $$
    insert into thermocline.enum_labels (label_oid, label)
    select e.oid, e.enumlabel from pg_enum e where e.enumtypid in (select thermocline.types_of(of_table))
    on conflict (label_oid) do update set label = excluded.label where enum_labels.label <> excluded.label;
    insert into thermocline.type_shapes (type_oid, shape)
    select y.oid, thermocline.type_shape(y.oid) from pg_type y where y.typtype in ('c', 'd') and y.oid in (select thermocline.types_of(of_table))
    on conflict (type_oid) do update set shape = excluded.shape where type_shapes.shape <> excluded.shape $$;

-- A type of the table's that no longer reads what lake files may hold, as a sentence; null when there is none.
create function thermocline.changed_type(of_table bigint) returns text
    language sql stable set search_path = pg_catalog as $$
    select c.change from (
        select format('value %L of type %s was renamed to %L; the lake holds it by its old name', k.label, e.enumtypid::regtype, e.enumlabel)
          from thermocline.enum_labels k join pg_enum e on e.oid = k.label_oid
         where e.enumlabel <> k.label and e.enumtypid in (select thermocline.types_of(of_table))
        union all
        select case y.typtype when 'c' then format('type %s got or lost attributes; the lake holds its values as they were', y.oid::regtype)
                              else format('domain %s got a constraint; values in the lake were not checked against it', y.oid::regtype) end
          from thermocline.type_shapes k join pg_type y on y.oid = k.type_oid
         where case y.typtype when 'c' then thermocline.type_shape(y.oid) <> k.shape else not thermocline.type_shape(y.oid) <@ k.shape end
           and y.oid in (select thermocline.types_of(of_table))) c(change)
     limit 1 $$;

-- The columns of a heap as far as they matter to the seam; every name outside pg_catalog qualified.
create function thermocline.shape_of(heap oid) returns text
    language sql stable set search_path = pg_catalog as $$
    select (select c.relnatts from pg_class c where c.oid = heap) || e'\n' || string_agg(concat_ws(' ', a.attnum, quote_ident(a.attname), format_type(a.atttypid, a.atttypmod), a.attcollation, a.attnotnull,
                                a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum)),
                      e'\n' order by a.attnum)
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = heap and a.attnum > 0 and not a.attisdropped $$;

-- The expressions of a table's generated columns, in both forms; where in a statement a part of it stood is no part of it.
create function thermocline.expressions_of(heap oid) returns table (attnum smallint, expression text, tree text)
    language sql stable set search_path = pg_catalog as $$
    select a.attnum, pg_get_expr(d.adbin, d.adrelid), regexp_replace(d.adbin::text, ' :location -?\d+', '', 'g')
      from pg_attribute a join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = heap and a.attnum > 0 and not a.attisdropped and a.attgenerated <> '' $$;

create function thermocline.note_expressions(of_table bigint) returns void
    language sql volatile set search_path = pg_catalog as $$
    update thermocline.columns c set expression = e.expression, expression_tree = e.tree
      from thermocline.columns x join thermocline.tables t on t.id = x.table_id
      left join thermocline.expressions_of(t.heap_oid) e on e.attnum = x.attnum
     where c.table_id = of_table and x.table_id = c.table_id and x.position = c.position
       and (c.expression, c.expression_tree) is distinct from (e.expression, e.tree) $$;

-- A generated column with another expression than values outside the heap were computed by, as a sentence; null when there is none.
create function thermocline.changed_expression(of_table bigint) returns text
    language sql stable set search_path = pg_catalog as $$
    select format('generated column %s has another expression: %s, which was %s', c.name, e.expression, c.expression)
      from thermocline.tables t join thermocline.columns c on c.table_id = t.id join thermocline.expressions_of(t.heap_oid) e on e.attnum = c.attnum
     where t.id = of_table and e.expression <> c.expression and e.tree <> c.expression_tree
     order by c.position limit 1 $$;

-- Whether a collation orders text by its bytes, as the lake does; core/types.py and seam/heap_facts.py say the same.
create function thermocline.orders_by_bytes(collation_oid oid) returns boolean
    language sql stable set search_path = pg_catalog as $$
    select case when collation_oid = 0 then true
                when c.collname <> 'default' then c.collname in ('C', 'POSIX', 'ucs_basic', 'C.utf8', 'C.UTF-8', 'pg_c_utf8')
                else (select case coalesce(to_jsonb(d) ->> 'datlocprovider', 'c')
                             when 'b' then coalesce(to_jsonb(d) ->> 'datlocale', '') in ('C', 'POSIX', 'C.UTF-8', 'C.utf8', 'C.UTF8')
                             when 'i' then false
                             else d.datcollate in ('C', 'POSIX', 'C.UTF-8', 'C.utf8', 'C.UTF8') end
                        from pg_database d where d.datname = current_database()) end
      from (select 1) one left join pg_collation c on c.oid = collation_oid $$;

-- A column's type by its own name, qualified where it is not Postgres' own.
create function thermocline.base_type(type_oid oid) returns text
    language sql stable set search_path = pg_catalog as $$
    select case when n.nspname = 'pg_catalog' then t.typname::text else format('%I.%I', n.nspname, t.typname) end
      from pg_type t join pg_namespace n on n.oid = t.typnamespace where t.oid = type_oid $$;

-- Iceberg's type for a Postgres type; `string` in text form where it has no twin. core/types.py has the same table, a test compares them.
create function thermocline.lake_type(base text, pg_type text) returns text
    language sql immutable set search_path = pg_catalog as $$
    select case base when 'bool' then 'boolean' when 'int2' then 'int' when 'int4' then 'int' when 'int8' then 'long'
                     when 'float4' then 'float' when 'float8' then 'double' when 'date' then 'date' when 'time' then 'time'
                     when 'timestamp' then 'timestamp' when 'timestamptz' then 'timestamptz' when 'uuid' then 'uuid'
                     when 'bytea' then 'binary' when 'text' then 'string' when 'varchar' then 'string'
                     when 'numeric' then (select format('decimal(%s, %s)', m[1], m[2]) from regexp_matches(pg_type, '^numeric\((\d+),(\d+)\)$') m
                                           where m[1]::integer <= 38 and m[2]::integer <= m[1]::integer) end $$;

-- Whether a type keeps no faithful text form, itself or inside; core/types.py has the same list.
create function thermocline.is_unfaithful(type_oid oid) returns boolean
    language sql stable set search_path = pg_catalog as $$
    with recursive inside(oid) as (
        select type_oid
        union
        select part.oid from inside join pg_type i on i.oid = inside.oid cross join lateral (
            select i.typbasetype where i.typtype = 'd'
            union all select i.typelem where i.typelem <> 0
            union all select f.atttypid from pg_attribute f where f.attrelid = i.typrelid and f.attnum > 0 and not f.attisdropped
            union all select r.rngsubtype from pg_range r where i.oid in (r.rngtypid, r.rngmultitypid)) part(oid))
    select exists (select from inside join pg_type b on b.oid = inside.oid
                    where b.typnamespace = 'pg_catalog'::regnamespace
                      and b.typname ~ ('^_?(money|reg[a-z]+|aclitem|gtsvector|pg_node_tree|pg_[a-z_]*stat[a-z_]*|pg_ndistinct|pg_dependencies|'
                                       'pg_mcv_list|pg_brin_[a-z_]+|refcursor|cstring|record|void|unknown)$')) $$;

-- Whether every value of the one type is, unchanged, a value of the other, in both tiers.
create function thermocline.is_widening(was_base text, was_type text, is_base text, is_type text) returns boolean
    language sql immutable set search_path = pg_catalog as $$
    select case when was_base = 'int2' then is_base in ('int4', 'int8')
                when was_base = 'int4' then is_base = 'int8'
                when was_base = 'float4' then is_base = 'float8'
                when was_base in ('varchar', 'text') and is_base in ('varchar', 'text')
                then coalesce(substring(is_type from '\((\d+)\)')::integer, 2147483647)
                     >= coalesce(substring(was_type from '\((\d+)\)')::integer, 2147483647)
                when was_base = 'numeric' and is_base = 'numeric'
                then coalesce((select w[2] = i[2] and i[1]::integer between w[1]::integer and 38
                                 from regexp_match(was_type, '^numeric\((\d+),(\d+)\)$') w, regexp_match(is_type, '^numeric\((\d+),(\d+)\)$') i), false)
                else false end $$;

-- A column that the lake holds as text has a domain of its own over its type in the foreign table: postgres_fdw then reads the text with the
-- type's input function (a cast could be a user's own), and ships no condition on it.
create function thermocline.lake_domain(of_table bigint, field_id integer) returns text
    language sql immutable set search_path = pg_catalog as $$ select format('thermocline_lake.value_%s_%s', of_table, field_id) $$;

create function thermocline.apply_domains(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    made record;
begin
    for made in select thermocline.lake_domain(of_table, c.field_id) as name, c.pg_type, case when a.attcollation <> 0 then format(' collate %I.%I', n.nspname, o.collname) end as collated
                  from thermocline.columns c join thermocline.tables t on t.id = c.table_id
                  join pg_attribute a on a.attrelid = t.heap_oid and a.attnum = c.attnum
                  left join pg_collation o on o.oid = a.attcollation left join pg_namespace n on n.oid = o.collnamespace
                 where c.table_id = of_table and c.form = 'text'
    loop
        if to_regtype(made.name) is null then
            execute concat('create domain ', made.name, ' as ', made.pg_type, made.collated);
        end if;
    end loop;
end $$;

-- The registered columns with all that the templates need to know of them.
create function thermocline.live_columns(of_table bigint)
    returns table (place integer, name text, spelled text, preset text, identity text, sequence text, is_generated boolean,
                   foreign_type text, lake_value text, comment text)
    language sql stable set search_path = pg_catalog as $$
    select f.position, f.name, f.spelled, f.preset, f.identity, f.sequence, f.is_generated,
           case when f.is_shippable then f.spelled when f.form = 'native' then 'thermocline.local_text'
                else thermocline.lake_domain(f.table_id, f.field_id) end,
           case when f.absent then format('%L::%s as %I', f.missing, f.spelled, f.name)
                when not f.is_shippable or f.held_as is not null then format('l.%I::%s as %I', f.name, f.spelled, f.name)
                else format('l.%I', f.name) end,
           f.comment
      from (select c.*, c.pg_type || case when a.attcollation <> 0 then format(' collate %I.%I', n.nspname, co.collname) else '' end as spelled,
                   c.form = 'native' and (c.lake_type <> 'string' or thermocline.orders_by_bytes(a.attcollation)) as is_shippable,
                   case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end as preset,
                   a.attidentity::text as identity, a.attgenerated <> '' as is_generated,
                   case when a.attidentity <> '' then pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) end as sequence,
                   col_description(a.attrelid, a.attnum) as comment
              from thermocline.columns c
              join thermocline.tables t on t.id = c.table_id
              join pg_attribute a on a.attrelid = t.heap_oid and a.attnum = c.attnum
              left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
              left join pg_collation co on co.oid = a.attcollation
              left join pg_namespace n on n.oid = co.collnamespace
             where c.table_id = of_table) f
     order by f.position $$;

-- The columns of a table's identity in the order of its index, with the index's own equality, and whether they can be hashed.
create function thermocline.key_columns(heap oid, identity text[])
    returns table (place bigint, name text, operator text, is_hashable boolean)
    language sql stable set search_path = pg_catalog as $$
    select k.place, a.attname::text, format('operator(%I.%s)', n.nspname, o.oprname), exists (
               select from pg_amproc h
                 join pg_opclass hc on hc.opcfamily = h.amprocfamily and hc.opcdefault
                 join pg_am am on am.oid = hc.opcmethod and am.amname = 'hash'
                where h.amprocnum = 2 and hc.opcintype in (a.atttypid, oc.opcintype))
      from pg_index i
      cross join lateral unnest(i.indkey::int2[], i.indclass::oid[]) with ordinality k(attnum, opclass, place)
      join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
      join pg_opclass oc on oc.oid = k.opclass
      join pg_amop ao on ao.amopfamily = oc.opcfamily and ao.amopstrategy = 3
           and ao.amoplefttype = oc.opcintype and ao.amoprighttype = oc.opcintype
      join pg_operator o on o.oid = ao.amopopr
      join pg_namespace n on n.oid = o.oprnamespace
     where k.place <= i.indnkeyatts and i.indexrelid = (
               select x.indexrelid from pg_index x cross join lateral (
                   select array_agg(c.attname::text) as names from pg_attribute c
                    where c.attrelid = x.indrelid and c.attnum = any((x.indkey::int2[])[0:x.indnkeyatts - 1])) covered
                where x.indrelid = heap and x.indisunique and x.indisvalid and x.indimmediate and x.indpred is null and x.indexprs is null
                  and covered.names @> identity and covered.names <@ identity
                order by x.indisprimary desc, x.indexrelid limit 1)
     order by k.place $$;

-- A template with its {places} filled in, in one pass: what is filled in is never looked at again. Places without a part stay.
create function thermocline.filled(template text, parts jsonb) returns text
    language sql immutable set search_path = pg_catalog as $$
    select string_agg(coalesce(parts ->> substring(p.piece from '^\{([a-z_]+)\}'), substring(p.piece from '^\{[a-z_]+\}'), '')
                      || regexp_replace(p.piece, '^\{[a-z_]+\}', ''), '' order by p.place)
      from unnest(string_to_array(regexp_replace(template, '(\{[a-z_]+\})', e'\x01\\1', 'g'), e'\x01')) with ordinality p(piece, place) $$;

-- A place on the axis, given as an expression, as a value of the key's own type.
create function thermocline.key_expression(key_type text, place text) returns text
    language sql immutable set search_path = pg_catalog as $$
    select case key_type when 'date' then format('thermocline.key_date(%s::bigint)', place)
                         when 'timestamp without time zone' then format('thermocline.key_timestamp(%s::bigint)', place)
                         when 'timestamp with time zone' then format('thermocline.key_timestamptz(%s::bigint)', place)
                         else place || '::bigint' end $$;

-- The same place as a constant.
create function thermocline.key_literal(key_type text, place bigint) returns text
    language sql stable set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' as $$
    select case key_type when 'date' then quote_literal(thermocline.key_date(place)) || '::date'
                         when 'timestamp without time zone' then quote_literal(thermocline.key_timestamp(place)) || '::timestamp'
                         when 'timestamp with time zone' then quote_literal(thermocline.key_timestamptz(place)) || '::timestamptz'
                         else quote_literal(place) || '::bigint' end $$;

-- Every part that the templates name. `line` and `floor` are the literals in the view: of the lake's and the delta's arm, of the heap's.
create function thermocline.seam_parts(of_table bigint, line bigint, floor bigint default -9223372036854775808) returns jsonb
    language plpgsql stable set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    parts jsonb;
    cut text;
begin
    select * into strict t from thermocline.tables where id = of_table;
    cut := format('(select %s from thermocline.cutline c where c.table_id operator(pg_catalog.=) %s)',
                  thermocline.key_expression(t.key_type, 'c.t'), t.id);
    parts := jsonb_build_object(
        'version', t.schema_version, 'table_id', t.id,
        'heap', format('%I.%I', t.schema_name, t.table_name), 'seam', format('%I.%I', t.seam_schema, t.table_name),
        'delta', format('thermocline_delta.%I', t.object_name), 'lake', format('thermocline_lake.%I', t.object_name),
        'spill', format('%I.%I', t.spill_schema, t.spill_name),
        'heap_text', replace(replace(format('%I.%I', t.schema_name, t.table_name), '''', ''''''), '%', '%%'),
        'seam_text', replace(format('%I.%I', t.seam_schema, t.table_name), '''', ''''''),
        'heap_literal', quote_literal(format('%I.%I', t.schema_name, t.table_name)),
        'heap_oid', quote_literal(t.heap_oid), 'heap_natts', (select relnatts from pg_class where oid = t.heap_oid),
        'tier_key', quote_ident(t.tier_key), 'key_type', t.key_type, 'tier_key_text', replace(replace(t.tier_key, '''', ''''''), '%', '%%'),
        'cut', cut, 'line_of', replace(cut, 'c.t::bigint', '(select r.line from thermocline.retention r where r.table_id operator(pg_catalog.=) c.table_id)::bigint'),
        'line', thermocline.key_literal(t.key_type, line),
        'above_floor', case when floor = -9223372036854775808 then ''
                            else format('h.%I >= %s and ', t.tier_key, thermocline.key_literal(t.key_type, floor)) end,
        'kept', case when t.keep_heap then '$1 is not null' else format('thermocline.axis(h.%I) operator(pg_catalog.>=) $1', t.tier_key) end);
    parts := parts || (select jsonb_build_object(
        'columns', string_agg(format('%I', c.name), ', ' order by c.place),
        'h_columns', string_agg(format('h.%I', c.name), ', ' order by c.place),
        'd_columns', string_agg(format('d.%I', c.name), ', ' order by c.place),
        'old_columns', string_agg(format('old.%I', c.name), ', ' order by c.place),
        'new_columns', string_agg(format('new.%I', c.name), ', ' order by c.place),
        'writable', string_agg(format('%I', c.name), ', ' order by c.place) filter (where not c.is_generated),
        'new_writable', string_agg(format('new.%I', c.name), ', ' order by c.place) filter (where not c.is_generated),
        'wished_writable', string_agg(format('wished.%I', c.name), ', ' order by c.place) filter (where not c.is_generated),
        'set_from_new', string_agg(format('%1$I = wished.%1$I', c.name), ', ' order by c.place)
            filter (where not c.is_generated and c.identity <> 'a'),
        'columns_from_excluded', string_agg(format('%1$I = excluded.%1$I', c.name), ', ' order by c.place),
        'fill_identity', coalesce(string_agg(format('if new.%1$I is null then new.%1$I := pg_catalog.nextval(%2$L); end if;', c.name, c.sequence),
            e'\n    ' order by c.place) filter (where c.identity <> ''), ''),
        'check_identity', coalesce(string_agg(format('if not pg_catalog.record_image_eq(row(new.%1$I), row(old.%1$I)) then'
            ' raise exception ''column %% can only be updated to DEFAULT'', %1$L using errcode = ''428C9''; end if;', c.name),
            e'\n    ' order by c.place) filter (where c.identity = 'a'), ''),
        'refuse_generated', coalesce(string_agg(format('if new.%1$I is not null then'
            ' raise exception ''cannot insert a non-DEFAULT value into column %%'', %1$L using errcode = ''428C9''; end if;', c.name),
            e'\n    ' order by c.place) filter (where c.is_generated), ''),
        'check_generated', coalesce(string_agg(format('if new.%1$I is not null and not pg_catalog.record_image_eq(row(new.%1$I), row(old.%1$I)) then'
            ' raise exception ''column %% can only be updated to DEFAULT'', %1$L using errcode = ''428C9''; end if;', c.name),
            e'\n    ' order by c.place) filter (where c.is_generated), ''))
        from thermocline.live_columns(of_table) c);
    return parts || (select jsonb_build_object(
        'key_columns', string_agg(format('%I', k.name), ', ' order by k.place),
        'old_key', string_agg(format('old.%I', k.name), ', ' order by k.place),
        'new_key', string_agg(format('new.%I', k.name), ', ' order by k.place),
        'heap_is_old', string_agg(format('h.%1$I %2$s old.%1$I', k.name, k.operator), ' and ' order by k.place),
        'heap_is_key', string_agg(format('h.%1$I %2$s $%3$s', k.name, k.operator, k.place), ' and ' order by k.place),
        'moved_from', format('$%s', count(*) + 1),
        'delta_is_old', string_agg(format('d.%1$I %2$s old.%1$I', k.name, k.operator), ' and ' order by k.place),
        'delta_is_new', string_agg(format('d.%1$I %2$s new.%1$I', k.name, k.operator), ' and ' order by k.place),
        'wished_is_old', string_agg(format('wished.%1$I %2$s old.%1$I', k.name, k.operator), ' and ' order by k.place),
        'new_is_old', string_agg(format('new.%1$I %2$s old.%1$I', k.name, k.operator), ' and ' order by k.place),
        'seam_is_wished', string_agg(format('s.%1$I %2$s wished.%1$I', k.name, k.operator), ' and ' order by k.place),
        'lake_is_corrected', string_agg(format('d.%1$I %2$s %3$s', k.name, k.operator,
            case when c.foreign_type ~ '^thermocline(_lake)?\.' or r.held_as is not null then format('l.%I::%s', k.name, r.pg_type)
                 else format('l.%I', k.name) end), ' and ' order by k.place),
        'key_lock', case when bool_and(k.is_hashable)
            then format('pg_catalog.hash_record_extended(row(%s), %s)', string_agg(format('old.%I', k.name), ', ' order by k.place), t.id)
            else format('746101, %s', t.id) end)
        from thermocline.key_columns(t.heap_oid, t.pk) k
        join thermocline.live_columns(of_table) c on c.name = k.name
        join thermocline.columns r on r.table_id = of_table and r.name = k.name);
end $$;

-- A template of this table, whole. Fragments are ours alone and may hold places, and fragments, themselves.
create function thermocline.rendered(of_table bigint, template text, parts jsonb) returns text
    language plpgsql stable set search_path = pg_catalog as $$
declare
    fragments jsonb := (select jsonb_object_agg(f.name, f.body) from thermocline.templates f
                         where f.name in ('raise_conflict', 'raise_twice', 'write_tombstone', 'refuse_existing', 'changed_meanwhile', 'refuse_unfollowed', 'skip_folded', 'not_ours', 'refuse_detached', 'refuse_renamed', 'heap_reads_old', 'delta_reads_old',
                                          'changed_in_delta', 'narrate_insert', 'narrate_update', 'narrate_delete', 'refuse_expired'));
    body text := (select b.body from thermocline.templates b where b.name = template);
begin
    if (select t.lake_retention is null from thermocline.tables t where t.id = of_table) then
        fragments := fragments || jsonb_build_object('refuse_expired', '');
    end if;
    -- Where the heap keeps its rows, no publication deletes any.
    if (select t.keep_heap from thermocline.tables t where t.id = of_table) then
        fragments := fragments || jsonb_build_object('skip_folded', '');
    end if;
    return thermocline.filled(thermocline.filled(thermocline.filled(body, fragments), fragments), parts);
end $$;

-- The routing and capture functions, owned by the heap's owner; triggers that call them go on calling them.
create function thermocline.apply_functions(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    parts jsonb := thermocline.seam_parts(of_table, 0);
    what text;
    made text;
    owner text;
begin
    select * into strict t from thermocline.tables where id = of_table;
    owner := (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = t.heap_oid);
    parts := parts || (select jsonb_object_agg(piece, quote_literal(thermocline.rendered(of_table, piece, parts)))
                         from unnest(array['head', 'tail', 'image_head', 'image_tail']) piece);
    foreach what in array array['capture', 'statement_cut', 'route_insert', 'route_update', 'route_delete', 'capture_truncate', 'truncate_notice']
    loop
        made := format('thermocline_fn.%I', t.object_name || '_' || what);
        -- A user's column may be called like one of our variables; in a statement the column is meant.
        execute format('create or replace function %s() returns trigger language plpgsql %s security definer set search_path = %s as %L',
                       made, case what when 'statement_cut' then 'stable' else 'volatile' end,
                       (select string_agg(quote_ident(p.name), ', ' order by p.place)
                          from (select n.name, min(n.place) as place
                                  from unnest(array['pg_catalog', t.schema_name, 'public', 'pg_temp']) with ordinality n(name, place)
                                 group by n.name) p),
                       e'#variable_conflict use_column\n' || thermocline.rendered(of_table, what, parts));
        execute format('alter function %s() owner to %I', made, owner);
        execute format('revoke all on function %s() from public', made);
    end loop;
end $$;

-- The view without any of its arms: nothing of the heap, the delta or the foreign table is held by it. Only within one transaction.
create function thermocline.loosen_seam(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    seam oid := (select to_regclass(format('%I.%I', t.seam_schema, t.table_name)) from thermocline.tables t where t.id = of_table);
begin
    if seam is null then return; end if;
    execute format('create or replace view %s as select %s where false', seam::regclass,
        (select string_agg(format('null::%s%s as %I', format_type(a.atttypid, a.atttypmod),
                                  case when a.attcollation <> 0 then format(' collate %I.%I', n.nspname, c.collname) else '' end, a.attname),
                           ', ' order by a.attnum)
           from pg_attribute a left join pg_collation c on c.oid = a.attcollation left join pg_namespace n on n.oid = c.collnamespace
          where a.attrelid = seam and a.attnum > 0 and not a.attisdropped));
end $$;

-- Takes the view's lock and changes nothing. Whoever rebuilds the view takes it before any lock on the heap, as its readers do.
create function thermocline.lock_seam(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    seam oid := (select to_regclass(format('%I.%I', t.seam_schema, t.table_name)) from thermocline.tables t where t.id = of_table);
begin
    if seam is null then return; end if;
    execute format('alter view %s owner to %I', seam::regclass, (select pg_get_userbyid(c.relowner) from pg_class c where c.oid = seam));
end $$;

-- What somebody granted, said and set on a view, as the statements that give it to its successor of the same name.
create function thermocline.view_extras(seam oid) returns text[]
    language sql stable set search_path = pg_catalog as $$
    select array(
        select format('grant %s%s on %s to %s%s', a.privilege_type, case when g.attname is null then '' else format(' (%I)', g.attname) end, seam::regclass,
                      case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
                      case when a.is_grantable then ' with grant option' else '' end)
          from (select c.relowner, c.relacl as acl, null::name as attname from pg_class c where c.oid = seam
                union all
                select c.relowner, t.attacl, t.attname from pg_class c join pg_attribute t on t.attrelid = c.oid and not t.attisdropped where c.oid = seam) g
          cross join lateral aclexplode(g.acl) a
         where a.grantee <> g.relowner
        union all
        select format('alter view %s set (%s)', seam::regclass, array_to_string(c.reloptions, ', ')) from pg_class c where c.oid = seam and c.reloptions is not null
        union all
        select format('comment on view %s is %L', seam::regclass, obj_description(seam, 'pg_class')) where obj_description(seam, 'pg_class') is not null) $$;

create function thermocline.apply_view_triggers(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    made record;
begin
    select * into strict t from thermocline.tables where id = of_table;
    -- Triggers fire in the order of their names: the statement's cut-line is noted before the row is routed.
    for made in select * from (values ('thermocline_a_statement_cut', 'update or delete', 'statement_cut'), ('thermocline_b_route_insert', 'insert', 'route_insert'),
                                      ('thermocline_b_route_update', 'update', 'route_update'), ('thermocline_b_route_delete', 'delete', 'route_delete'))
                              m(name, event, what)
    loop
        execute format('create or replace trigger %I instead of %s on %I.%I for each row execute function thermocline_fn.%I()',
                       made.name, made.event, t.seam_schema, t.table_name, t.object_name || '_' || made.what);
    end loop;
    execute format('create or replace trigger thermocline_a_on_conflict before insert on %I.%I for each statement execute function thermocline.refuse_do_nothing()',
                   t.seam_schema, t.table_name);
end $$;

-- The view for the columns as they are. Where columns left or changed their type it is made anew, with all that was granted on it;
-- where something depends on it, it stays: columns that left read NULL under another name, and a changed type is refused.
create function thermocline.apply_view(of_table bigint, line bigint, retyped text[] default '{}', floor bigint default null) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    parts jsonb := thermocline.seam_parts(of_table, line,
        coalesce(floor, (select k.seam_floor from thermocline.cutline k where k.table_id = of_table)));
    seam text;
    old oid;
    names text[] := array(select c.name from thermocline.live_columns(of_table) c order by c.place);
    had text[];
    extras text[] := '{}';
    dependent text;
    c record;
begin
    select * into strict t from thermocline.tables where id = of_table;
    seam := format('%I.%I', t.seam_schema, t.table_name);
    old := to_regclass(seam);
    had := array(select a.attname::text from pg_attribute a where a.attrelid = old and a.attnum > 0 and not a.attisdropped order by a.attnum);
    if old is not null and (retyped <> '{}' or had <> names[1:cardinality(had)]) then
        extras := thermocline.view_extras(old);
        select format('trigger %I', g.tgname) into dependent from pg_trigger g where g.tgrelid = old and g.tgname !~ '^thermocline_' limit 1;
        if not found then
            begin
                execute format('drop view %s', seam);
                old := null;
            exception when dependent_objects_still_exist then
                get stacked diagnostics dependent = pg_exception_detail;
            end;
        end if;
        if old is not null and retyped <> '{}' then
            raise exception 'cannot alter type of column "%" of %.%, for others build on its seam %', retyped[1], t.schema_name, t.table_name, seam
                using errcode = 'feature_not_supported', detail = dependent, hint = 'Drop what depends on the seam, alter the column, and make it again.';
        end if;
    end if;
    parts := parts || (
        select jsonb_build_object('heap_columns', string_agg(case when l.name is null then v.hollow else format('h.%I', l.name) end, ', ' order by v.place, l.place),
                                  'lake_columns', string_agg(coalesce(l.lake_value, v.hollow), ', ' order by v.place, l.place),
                                  'delta_columns', string_agg(case when l.name is null then v.hollow else format('d.%I', l.name) end, ', ' order by v.place, l.place))
          from thermocline.live_columns(of_table) l
          full join (select a.attname::text as name, a.attnum as place,
                            format('null::%s%s as %I', format_type(a.atttypid, a.atttypmod),
                                   case when a.attcollation <> 0 then format(' collate %I.%I', n.nspname, k.collname) else '' end, a.attname) as hollow
                       from pg_attribute a left join pg_collation k on k.oid = a.attcollation left join pg_namespace n on n.oid = k.collnamespace
                      where a.attrelid = old and a.attnum > 0 and not a.attisdropped) v on v.name = l.name);
    execute thermocline.rendered(of_table, 'seam', parts);
    if old is null then
        execute format('alter view %s owner to %I', seam, (select pg_get_userbyid(h.relowner) from pg_class h where h.oid = t.heap_oid));
        perform thermocline.apply_view_triggers(of_table);
        for c in select e from unnest(extras) e loop
            begin
                execute c.e;
            exception when undefined_column then
                null; -- a right on a column that is gone
            end;
        end loop;
    end if;
    for c in select * from thermocline.live_columns(of_table) loop
        execute format('alter view %s alter column %I %s', seam, c.name, coalesce('set default ' || c.preset, 'drop default'));
        if c.comment is not null then execute format('comment on column %s.%I is %L', seam, c.name, c.comment); end if;
    end loop;
end $$;

-- Functions and view of a table, and the shape they were made for.
create function thermocline.apply_seam(of_table bigint, line bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    perform thermocline.note_types(of_table);
    perform thermocline.note_expressions(of_table);
    perform thermocline.apply_functions(of_table);
    perform thermocline.apply_view(of_table, line);
    update thermocline.tables t set shape = thermocline.shape_of(t.heap_oid),
           last_field_id = greatest(t.last_field_id, (select max(c.field_id) from thermocline.columns c where c.table_id = of_table))
     where t.id = of_table;
end $$;

-- The value that rows written before a column existed have in the heap: Postgres keeps it with each partition. Null when there is none.
create function thermocline.missing_value(heap oid, column_name text, pg_type text) returns text
    language plpgsql volatile set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC' set intervalstyle = 'postgres'
    set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
    kept text := (select a.attmissingval::text from pg_partition_tree(heap) p join pg_attribute a on a.attrelid = p.relid
                   where p.isleaf and a.attname = column_name and a.atthasmissing limit 1);
    value text;
begin
    -- By the input and the output function, and no cast.
    if kept is not null then
        execute format('select case when v.x is distinct from null then concat(v.x) end from (select (%L::%s[])[1]) v(x)', kept, pg_type) into value;
    end if;
    return value;
end $$;

-- Whether rows of the table are, or are about to be, in the lake or in the delta.
create function thermocline.has_rows_outside(of_table bigint) returns boolean
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    found_some boolean;
begin
    execute format('select c.s is not null or exists (select from thermocline_delta.%I)'
                   ' or exists (select from thermocline.partitions p where p.table_id = $1 and p.state in (''sealing'', ''tiering''))'
                   ' from thermocline.cutline c where c.table_id = $1', (select t.object_name from thermocline.tables t where t.id = of_table))
       into found_some using of_table;
    return found_some;
end $$;

-- Why a column that was added cannot be followed, or null.
create function thermocline.why_not_added(of_table bigint, a pg_attribute) returns text
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    is_told boolean;
begin
    select * into strict t from thermocline.tables where id = of_table;
    if a.attname in ('_snapshot', '_op', '_version', '_folded', '_old_key') then return 'its name is one of Thermocline''s own'; end if;
    if thermocline.is_unfaithful(a.atttypid) then
        return format('the text form of type %s does not read back the same everywhere', format_type(a.atttypid, a.atttypmod));
    end if;
    if a.attgenerated = 'v' then return 'a virtual column has no values to store'; end if;
    -- From here on the rows outside the heap matter: what would they have got?
    if not thermocline.has_rows_outside(of_table) then return null; end if;
    if not a.atthasdef and a.attidentity = '' then
        -- The heap's rows got the default of the type, which stands nowhere with the column.
        if (select y.typdefault is not null from pg_type y where y.oid = a.atttypid) then
            return format('type %s has a default of its own, which rows in the lake would not get: add it with DEFAULT NULL', format_type(a.atttypid, a.atttypmod));
        end if;
        begin
            execute format('select null::%s', format_type(a.atttypid, a.atttypmod));
        exception when integrity_constraint_violation or check_violation or not_null_violation then
            return format('rows in the lake would be NULL, which type %s does not take', format_type(a.atttypid, a.atttypmod));
        end;
        return null;
    end if;
    if a.attgenerated <> '' or a.attidentity <> '' then return 'rows in the lake would need a value of their own each'; end if;
    if thermocline.missing_value(t.heap_oid, a.attname, format_type(a.atttypid, a.atttypmod)) is not null then return null; end if;
    -- A default, and no one value for old rows: either each row was given one of its own, or the default came after the column.
    execute format('select exists (select from %1$s where %2$I is not null) or not exists (select from %1$s)', t.heap_oid::regclass, a.attname) into is_told;
    return case when is_told then 'its default is not the same for every row, and rows in the lake would need one each' end;
end $$;

create function thermocline.refuse_change(of_table bigint, change text, reason text) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    raise exception 'the lake of %.% cannot follow this change: %', (select t.schema_name from thermocline.tables t where t.id = of_table),
        (select t.table_name from thermocline.tables t where t.id = of_table), concat_ws('; ', change, reason)
        using errcode = 'feature_not_supported', hint = 'Undo the change, or unregister the table first and register it again after it.';
end $$;

-- A name cut to so many bytes, between two characters.
create function thermocline.cut_name(name text, bytes integer) returns text
    language sql immutable set search_path = pg_catalog as $$
    select left(name, n) from generate_series(bytes, 0, -1) n where octet_length(left(name, n)) <= bytes limit 1 $$;

-- Renames a column of a relation by way of a name nobody has, so that two columns may swap theirs.
create function thermocline.rename_columns(kind text, relation text, renames jsonb) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    r record;
begin
    for r in select * from jsonb_to_recordset(renames) x(was text, now text, attnum integer) loop
        execute format('alter %s %s rename column %I to %I', kind, relation, r.was, '_thermocline_renamed_' || r.attnum);
    end loop;
    for r in select * from jsonb_to_recordset(renames) x(was text, now text, attnum integer) loop
        execute format('alter %s %s rename column %I to %I', kind, relation, '_thermocline_renamed_' || r.attnum, r.now);
    end loop;
end $$;

-- The foreign column asks the gateway for a field by its number and for a version, so that nothing known before answers for it.
create function thermocline.point_foreign_column(relation text, column_name text, field_id integer, version integer) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    execute format('alter foreign table %s alter column %I options (%s column_name %L)', relation, column_name,
        case when exists (select from pg_attribute a, unnest(a.attfdwoptions) o
                           where a.attrelid = relation::regclass and a.attname = column_name and o like 'column\_name=%') then 'set' else 'add' end,
        format('#%s.%s', field_id, version));
end $$;

create function thermocline.follow_added(t thermocline.tables, a pg_attribute) returns text
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    delta text := format('thermocline_delta.%I', t.object_name);
    now_type text := format_type(a.atttypid, a.atttypmod);
    now_base text := thermocline.base_type(a.atttypid);
    collation_text text := (select format(' collate %I.%I', n.nspname, c.collname)
                              from pg_collation c join pg_namespace n on n.oid = c.collnamespace where c.oid = a.attcollation);
    old_rows text := thermocline.missing_value(t.heap_oid, a.attname, now_type);
    reason text := thermocline.why_not_added(t.id, a);
begin
    if reason is not null then
        perform thermocline.refuse_change(t.id, format('column %s %s was added', a.attname, now_type), reason);
    end if;
    execute format('alter table %s add column %I %s%s%s', delta, a.attname, now_type, collation_text, coalesce(' default ' || quote_literal(old_rows), ''));
    execute format('alter table %s alter column %I drop default', delta, a.attname);
    update thermocline.tables x set last_field_id = greatest(x.last_field_id, (select max(c.field_id) from thermocline.columns c where c.table_id = t.id)) + 1
     where x.id = t.id;
    insert into thermocline.columns (table_id, position, name, attnum, base_type, pg_type, lake_type, form, field_id, required, missing, absent)
    select t.id, coalesce(max(c.position), 0) + 1, a.attname, a.attnum, now_base, now_type, coalesce(thermocline.lake_type(now_base, now_type), 'string'),
           case when thermocline.lake_type(now_base, now_type) is null then 'text' else 'native' end,
           (select x.last_field_id from thermocline.tables x where x.id = t.id), false, old_rows, true
      from thermocline.columns c where c.table_id = t.id;
    return format('column %s %s added%s', a.attname, now_type, coalesce(', old rows read ' || old_rows, ''));
end $$;

create function thermocline.follow_retyped(t thermocline.tables, was thermocline.columns, a pg_attribute) returns text
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    delta text := format('thermocline_delta.%I', t.object_name);
    now_type text := format_type(a.atttypid, a.atttypmod);
    now_base text := thermocline.base_type(a.atttypid);
    collation_text text := (select format(' collate %I.%I', n.nspname, c.collname)
                              from pg_collation c join pg_namespace n on n.oid = c.collnamespace where c.oid = a.attcollation);
begin
    if not thermocline.is_widening(was.base_type, was.pg_type, now_base, now_type) then
        perform thermocline.refuse_change(t.id, format('column %s changed from %s to %s', a.attname, was.pg_type, now_type), null);
    end if;
    execute format('alter table %s alter column %I type %s%s', delta, a.attname, now_type, collation_text);
    if was.missing is not null then
        execute format('select %L::%s::%s::text', was.missing, was.pg_type, now_type) into was.missing;
    end if;
    update thermocline.columns c
       set base_type = now_base, pg_type = now_type, lake_type = coalesce(thermocline.lake_type(now_base, now_type), 'string'),
           missing = was.missing, held_as = case when not c.absent then coalesce(c.held_as, was.pg_type) end
     where c.table_id = t.id and c.attnum = a.attnum;
    return format('column %s changed from %s to %s', a.attname, was.pg_type, now_type);
end $$;

-- Columns whose type is called otherwise than it was, and is the same type: the delta's column has it.
create function thermocline.renamed_types(of_table bigint) returns table (attnum smallint, pg_type text, base_type text)
    language sql stable set search_path = pg_catalog as $$
    select n.attnum, format_type(n.atttypid, n.atttypmod), thermocline.base_type(n.atttypid)
      from thermocline.tables t
      join thermocline.columns x on x.table_id = t.id
      join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum
      join pg_attribute d on d.attrelid = to_regclass(format('thermocline_delta.%I', t.object_name)) and d.attname = x.name
           and d.atttypid = n.atttypid and d.atttypmod = n.atttypmod
     where t.id = of_table and format_type(n.atttypid, n.atttypmod) <> x.pg_type $$;

-- Follows the heap's columns: delta, foreign table, catalog, functions and view, in the caller's transaction. What was done, one sentence each.
-- The lake's own schema and the foreign table's new columns come with the next cycle; until then the view itself knows what lake rows read as.
create function thermocline.follow_schema(of_table bigint, is_loosened boolean default false) returns text[]
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    said text[] := '{}';
    retyped text[] := '{}';
    renames jsonb;
    c thermocline.columns;
    a pg_attribute;
    delta text;
    lake text;
begin
    select * into t from thermocline.tables where id = of_table;
    if not found or not exists (select from pg_class h where h.oid = t.heap_oid)
       or (not is_loosened and thermocline.shape_of(t.heap_oid) is not distinct from t.shape and thermocline.changed_type(of_table) is null)
    then return said; end if;
    -- In the order of the publications: heap and spill, cut-line, table, delta. A transaction whose snapshot is older than the view's literals
    -- must not write older ones into it: it fails to serialize here.
    perform from thermocline.cutline k where k.table_id = of_table for share;
    select * into t from thermocline.tables where id = of_table for update;
    execute format('lock table only %s in access share mode', t.heap_oid::regclass);
    if thermocline.changed_type(of_table) is not null and thermocline.has_rows_outside(of_table) then
        perform thermocline.refuse_change(of_table, thermocline.changed_type(of_table), null);
    end if;
    -- Where event triggers are there, on_rewrite() has refused it in its statement.
    if thermocline.changed_expression(of_table) is not null and thermocline.has_rows_outside(of_table) then
        perform thermocline.refuse_change(of_table, thermocline.changed_expression(of_table), 'the values in the heap alone were computed anew');
    end if;
    delta := format('thermocline_delta.%I', t.object_name);
    lake := format('thermocline_lake.%I', t.object_name);
    perform thermocline.loosen_seam(of_table);
    for c in select x.* from thermocline.columns x join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum and n.attisdropped
              where x.table_id = of_table order by x.position
    loop
        if c.name = any (t.pk) then
            perform thermocline.refuse_change(of_table, format('column %s was dropped', c.name), 'it is part of the key');
        end if;
        execute format('alter table %s drop column %I', delta, c.name);
        execute format('alter foreign table %s drop column if exists %I', lake, c.name);
        execute format('drop domain if exists %s', thermocline.lake_domain(of_table, c.field_id));
        -- The view's column gives its name up at once: another may be added under it.
        execute coalesce((
            select format('alter view %s rename column %I to %I', v.attrelid::regclass, v.attname, thermocline.cut_name(v.attname, 48) || '_dropped_' || v.attnum)
              from pg_attribute v where v.attrelid = to_regclass(format('%I.%I', t.seam_schema, t.table_name)) and v.attname = c.name), 'select');
        delete from thermocline.columns x where x.table_id = of_table and x.attnum = c.attnum;
        said := said || format('column %s dropped', c.name);
    end loop;
    renames := (select jsonb_agg(jsonb_build_object('was', x.name, 'now', n.attname, 'attnum', n.attnum, 'absent', x.absent, 'field_id', x.field_id) order by x.position)
                  from thermocline.columns x join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum
                 where x.table_id = of_table and n.attname <> x.name);
    if renames is not null then
        said := said || (select array_agg(format('column %s renamed to %s', r ->> 'was', r ->> 'now')) from jsonb_array_elements(renames) r);
        perform thermocline.rename_columns('table', delta, renames);
        perform thermocline.rename_columns('foreign table', lake, (select coalesce(jsonb_agg(r), '[]') from jsonb_array_elements(renames) r where not (r ->> 'absent')::boolean));
        if to_regclass(format('%I.%I', t.seam_schema, t.table_name)) is not null then
            perform thermocline.rename_columns('view', format('%I.%I', t.seam_schema, t.table_name), renames);
        end if;
        perform thermocline.point_foreign_column(lake, r ->> 'now', (r ->> 'field_id')::integer, t.schema_version + 1)
           from jsonb_array_elements(renames) r where not (r ->> 'absent')::boolean;
        update thermocline.columns x set name = r ->> 'now' from jsonb_array_elements(renames) r
         where x.table_id = of_table and x.attnum = (r ->> 'attnum')::integer;
        update thermocline.tables x
           set pk = array(select coalesce((select r ->> 'now' from jsonb_array_elements(renames) r where r ->> 'was' = k.name), k.name)
                            from unnest(x.pk) with ordinality k(name, place) order by k.place),
               tier_key = coalesce((select r ->> 'now' from jsonb_array_elements(renames) r where r ->> 'was' = x.tier_key), x.tier_key)
         where x.id = of_table;
    end if;
    -- The delta's column has the very type still: the type got another name or schema, and every value stays as it was.
    update thermocline.columns x set pg_type = r.pg_type, base_type = r.base_type from thermocline.renamed_types(of_table) r
     where x.table_id = of_table and x.attnum = r.attnum;
    for c in select x.* from thermocline.columns x join pg_attribute n on n.attrelid = t.heap_oid and n.attnum = x.attnum
              where x.table_id = of_table and format_type(n.atttypid, n.atttypmod) <> x.pg_type order by x.position
    loop
        select n.* into a from pg_attribute n where n.attrelid = t.heap_oid and n.attnum = c.attnum;
        said := said || thermocline.follow_retyped(t, c, a);
        retyped := retyped || c.name;
    end loop;
    for a in select n.* from pg_attribute n where n.attrelid = t.heap_oid and n.attnum > 0 and not n.attisdropped
                and not exists (select from thermocline.columns x where x.table_id = of_table and x.attnum = n.attnum) order by n.attnum
    loop
        said := said || thermocline.follow_added(t, a);
    end loop;
    for a in select n.* from pg_attribute n join pg_attribute d on d.attrelid = delta::regclass and d.attname = n.attname
              where n.attrelid = t.heap_oid and n.attnum > 0 and not n.attisdropped and d.attcollation <> n.attcollation
    loop
        perform thermocline.refuse_change(of_table, format('column %s has another collation', a.attname), null);
    end loop;
    if not exists (select from thermocline.tables x cross join lateral thermocline.key_columns(x.heap_oid, x.pk) where x.id = of_table) then
        perform thermocline.refuse_change(of_table, 'its primary key is gone', 'it tells the rows of both tiers apart');
    end if;
    update thermocline.tables x set shape = thermocline.shape_of(x.heap_oid), schema_version = x.schema_version + 1,
           lake_behind = x.lake_behind or said <> '{}' where x.id = of_table;
    perform thermocline.note_types(of_table);
    perform thermocline.note_expressions(of_table);
    perform thermocline.apply_functions(of_table);
    perform thermocline.apply_view(of_table, (select k.seam_line from thermocline.cutline k where k.table_id = of_table), retyped);
    if said <> '{}' then
        insert into thermocline.events (table_id, action, sentence)
        values (of_table, 'schema', format('%s.%s: %s.', t.schema_name, t.table_name, array_to_string(said, '; ')));
    end if;
    return said;
end $$;

-- The lake has the columns now: the foreign table gets them too, and the view reads them there.
create function thermocline.finish_following(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    lake text;
    c record;
begin
    perform thermocline.loosen_seam(of_table);
    select * into strict t from thermocline.tables where id = of_table for update;
    lake := format('thermocline_lake.%I', t.object_name);
    perform thermocline.apply_domains(of_table);
    for c in select x.name, x.absent, x.field_id, l.foreign_type from thermocline.columns x
               join thermocline.live_columns(of_table) l on l.name = x.name
              where x.table_id = of_table and (x.absent or x.held_as is not null)
    loop
        execute format('alter foreign table %s %s column %I %s %s', lake, case when c.absent then 'add' else 'alter' end, c.name,
                       case when c.absent then '' else 'type' end, c.foreign_type);
        perform thermocline.point_foreign_column(lake, c.name, c.field_id, t.schema_version);
    end loop;
    update thermocline.columns x set absent = false, held_as = null where x.table_id = of_table and (x.absent or x.held_as is not null);
    perform thermocline.apply_view(of_table, (select k.seam_line from thermocline.cutline k where k.table_id = of_table));
    update thermocline.tables x set lake_behind = false where x.id = of_table;
end $$;

-- The tables that event triggers follow; 0012 leaves out those whose object numbers are another database's.
create view thermocline.tables_here as
select t.id, t.schema_name, t.table_name, t.object_name, t.heap_oid, t.key_type, t.keep_heap from thermocline.tables t;
revoke all on thermocline.tables_here from public;

-- A column that a view uses can be neither dropped nor given another type, so a seam lets go before a statement that may want to, and
-- takes hold again behind it; both in that statement's transaction. The text only decides whether to let go: what changed is read off
-- the catalogs afterwards. Where it says nothing of the table (a call of a function), Postgres refuses, as for any view.
create function thermocline.on_alter_start() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    t record;
    lets_go boolean := current_query() ~* '\m(drop|type)\M';
begin
    if current_setting('thermocline.following', true) = 'on' or not (lets_go or current_query() ~* '\m(add|rename)\M') then return; end if;
    for t in select r.id from thermocline.tables_here r join pg_class h on h.oid = r.heap_oid
              where current_query() ~* ('(^|[^\w$])' || regexp_replace(replace(r.table_name, '"', '""'), '(\W)', '\\\1', 'g') || '($|[^\w$])')
                and pg_has_role(session_user, h.relowner, 'member')
    loop
        -- Readers lock the view, then the heap; so do we, or one would have to be sent away.
        perform thermocline.lock_seam(t.id);
        continue when not lets_go;
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.loosen_seam(t.id);
        perform set_config('thermocline.following', '', true);
        perform set_config('thermocline.loosened', concat_ws(',', nullif(current_setting('thermocline.loosened', true), ''), t.id), true);
    end loop;
end $$;

create function thermocline.on_alter_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    loosened bigint[] := string_to_array(nullif(current_setting('thermocline.loosened', true), ''), ',')::bigint[];
    t record;
begin
    if current_setting('thermocline.following', true) = 'on' then return; end if;
    for t in select r.id from thermocline.tables_here r
              where r.id = any (loosened) or r.heap_oid in (select c.objid from pg_event_trigger_ddl_commands() c)
    loop
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.follow_schema(t.id, coalesce(t.id = any (loosened), false));
        perform set_config('thermocline.following', '', true);
    end loop;
    perform set_config('thermocline.loosened', '', true);
end $$;

-- What the statement under way says, as far as anybody can tell: the client's own text, and that of every statement inside functions.
-- Null where a part of it is not to be seen (a function in SQL).
create function thermocline.statement_text(context text) returns text
    language sql stable set search_path = pg_catalog as $$
    select case when context !~ 'SQL function "' then concat_ws(e';\n', current_query(), context) end $$;

-- A name as Postgres reads it: exactly where it is quoted; else its ASCII letters, and no others, in lower case.
create function thermocline.folded_name(spelled text) returns text
    language sql immutable set search_path = pg_catalog as $$
    select case when spelled like '"%' then replace(substr(spelled, 2, length(spelled) - 2), '""', '"')
                else translate(spelled, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz') end $$;

-- The statement without each USING that only spells out the cast that Postgres makes by itself: ALTER COLUMN v TYPE bigint USING v::bigint.
create function thermocline.without_plain_using(statement text) returns text
    language plpgsql immutable set search_path = pg_catalog as $$
declare
    name constant text := '("(?:[^"]|"")+"|[\w$]+)';
    type constant text := '([\w ]+(?:\([\d, ]+\))?)';
    m text[];
begin
    for m in select x from regexp_matches(statement, concat('(\malter\s+(?:column\s+)?', name, '\s+(?:set\s+data\s+)?type\s+', type,
                                                            '\s+using\s+', name, '\s*::\s*', type, ')\s*(?=[,;"'']|$)'), 'gi') x
    loop
        if thermocline.folded_name(m[2]) = thermocline.folded_name(m[4])
           and thermocline.folded_name(btrim(m[3])) = thermocline.folded_name(btrim(m[5])) then
            statement := replace(statement, m[1], 'alter');
        end if;
    end loop;
    return statement;
end $$;

-- A statement that rewrites the values of the heap's rows reaches no row of the lake or the delta: it is refused once there are any, unless
-- its text shows that values stay as they are. What comes with a new column is judged by follow_added().
create function thermocline.on_rewrite() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    rewritten constant oid := pg_event_trigger_table_rewrite_oid();
    reason constant integer := pg_event_trigger_table_rewrite_reason(); -- 2 for values of their own, 4 for another type
    t record;
    context text;
    said text;
    why text;
begin
    if reason & 6 = 0 then return; end if;
    select r.id, format('%I.%I', r.schema_name, r.table_name) as name into t
      from thermocline.tables_here r where r.heap_oid in (rewritten, pg_partition_root(rewritten));
    if not found then return; end if;
    perform from thermocline.cutline k where k.table_id = t.id for share;
    if not thermocline.has_rows_outside(t.id) then return; end if;
    get diagnostics context = pg_context;
    said := thermocline.statement_text(context);
    if reason & 4 <> 0 and coalesce(thermocline.without_plain_using(said) ~* '\musing\M', true) then
        why := 'USING would change the values in the heap alone, and rows in the lake would keep theirs';
    elsif reason & 2 <> 0 and coalesce(said ~* '\mexpression\M', true) then
        why := 'another expression of a generated column would change the values in the heap alone';
    else
        return;
    end if;
    raise exception 'the lake of % cannot follow this change: %', t.name, why using errcode = 'feature_not_supported',
        hint = 'Add another column, UPDATE the seam with its values, drop the old column and rename the new one. A type that only widens needs no USING.';
end $$;

-- A type that would no longer read what the lake may hold is refused at once; what needs nothing (a value more, another name of an
-- attribute) is noted. Row types of tables change by ALTER TABLE.
create function thermocline.on_type_end() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    t record;
begin
    if current_setting('thermocline.following', true) = 'on'
       or (tg_tag = 'ALTER TABLE' and not exists (select from pg_event_trigger_ddl_commands() c join pg_class r on r.oid = c.objid
                                                    join thermocline.type_shapes k on k.type_oid = r.reltype)) then return; end if;
    for t in select r.id, thermocline.changed_type(r.id) as change from thermocline.tables_here r loop
        continue when t.change is null;
        if thermocline.has_rows_outside(t.id) then
            perform thermocline.refuse_change(t.id, t.change, null);
        end if;
    end loop;
    -- Only now: another table may use the same type.
    perform thermocline.note_types(r.id) from thermocline.tables_here r;
    for t in select r.id from thermocline.tables_here r where exists (select from thermocline.renamed_types(r.id)) loop
        perform set_config('thermocline.following', 'on', true);
        perform thermocline.follow_schema(t.id);
        perform set_config('thermocline.following', '', true);
    end loop;
end $$;

revoke all on function thermocline.on_alter_start(), thermocline.on_alter_end(), thermocline.on_rewrite(), thermocline.on_type_end(), thermocline.note_types(bigint), thermocline.note_expressions(bigint), thermocline.follow_schema(bigint, boolean),
    thermocline.finish_following(bigint), thermocline.apply_seam(bigint, bigint), thermocline.apply_view(bigint, bigint, text[], bigint),
    thermocline.apply_functions(bigint), thermocline.apply_view_triggers(bigint), thermocline.loosen_seam(bigint),
    thermocline.lock_seam(bigint) from public;

-- Event triggers are a superuser's to make; without them a change is followed by the next cycle, and captures refuse until then.
do $$
begin
    if (select r.rolsuper from pg_roles r where r.rolname = current_user) then
        create event trigger thermocline_alter_start on ddl_command_start when tag in ('ALTER TABLE') execute function thermocline.on_alter_start();
        create event trigger thermocline_rewrite on table_rewrite execute function thermocline.on_rewrite();
        create event trigger thermocline_type_end on ddl_command_end when tag in ('ALTER TYPE', 'ALTER DOMAIN', 'ALTER TABLE') execute function thermocline.on_type_end();
        create event trigger thermocline_alter_end on ddl_command_end when tag in ('ALTER TABLE') execute function thermocline.on_alter_end();
    end if;
end $$;
