-- The registered columns with all that the templates need to know of them.
create or replace function thermocline.live_columns(of_table bigint)
    returns table (place integer, name text, spelled text, preset text, identity text, sequence text,
                   is_generated boolean, foreign_type text, lake_value text, comment text)
    language sql stable set search_path = pg_catalog as $$
    select f.position, f.name, f.spelled, f.preset, f.identity, f.sequence, f.is_generated,
           case when f.is_shippable then f.spelled when f.form = 'native' then 'thermocline.local_text'
                else thermocline.lake_domain(f.table_id, f.field_id) end,
           case when f.absent then format('%L::%s%s as %I', f.missing, f.carrier, f.spelled, f.name)
                when not f.is_shippable or f.held_as is not null
                then format('l.%I::%s as %I', f.name, f.spelled, f.name)
                else format('l.%I', f.name) end,
           f.comment
      from (select c.*,
                   c.pg_type || case when a.attcollation <> 0 then format(' collate %I.%I', n.nspname, co.collname)
                                     else '' end as spelled,
                   c.form = 'native' and (not k.is_collated
                                          or thermocline.orders_by_bytes(a.attcollation)) as is_shippable,
                   case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end as preset,
                   a.attidentity::text as identity, a.attgenerated <> '' as is_generated,
                   case when a.attidentity <> ''
                        then pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) end as sequence,
                   col_description(a.attrelid, a.attnum) as comment,
                   -- A literal of a composite or a range is read when the view is made, by whoever makes it, and a
                   -- domain inside it checks then. From a type that no cast function of the user's leads from,
                   -- the input function is called when the view is read.
                   case when y.typnamespace <> 'pg_catalog'::regnamespace
                        then (select s.name || '::' from unnest(array['varchar', 'text']) s(name)
                               where not exists (select from pg_cast k where k.castsource = s.name::regtype
                                                    and k.casttarget = y.oid and k.castmethod = 'f') limit 1)
                        end as carrier
              from thermocline.columns c
              left join thermocline.column_types k on k.typname = c.base_type
              join thermocline.tables t on t.id = c.table_id
              join pg_attribute a on a.attrelid = t.heap_oid and a.attnum = c.attnum
              join pg_type y on y.oid = a.atttypid
              left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
              left join pg_collation co on co.oid = a.attcollation
              left join pg_namespace n on n.oid = co.collnamespace
             where c.table_id = of_table) f
     order by f.position $$;
