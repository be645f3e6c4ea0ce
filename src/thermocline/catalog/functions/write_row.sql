create or replace function thermocline.write_row(verb text, target regclass, fields jsonb) returns text
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    spanning thermocline.spanning := thermocline.spanning_table(target);
    given text;
    replaced text;
    is_hot boolean;
begin
    perform thermocline.check_fields(verb, spanning.heap, fields, thermocline.required_fields(spanning.heap,
            spanning.pk));
    select string_agg(quote_ident(a.attname), ', ' order by a.attnum) filter (where fields ? a.attname),
           string_agg(format('%1$I = excluded.%1$I', a.attname), ', ' order by a.attnum)
               filter (where a.attgenerated = '' and a.attidentity <> 'a' and not a.attname = any (spanning.pk)
                             and (a.attidentity = '' or fields ? a.attname))
      into given, replaced
      from pg_attribute a where a.attrelid = spanning.heap and a.attnum > 0 and not a.attisdropped;
    -- A key of nothing but key columns has nothing to replace; setting one to itself still says where the row is.
    replaced := coalesce(replaced, format('%1$I = excluded.%1$I', spanning.tier_key));
    execute format('insert into %1$s as h (%2$s) select %2$s from jsonb_populate_record(null::%1$s, $1) on conflict'
                   ' (%3$s) do %4$s'
                   ' returning thermocline.axis(h.%5$I) >= (select p.t from thermocline.spanning p where p.id = $2)',
                   spanning.heap, given, (select string_agg(quote_ident(k), ', ') from unnest(spanning.pk) k),
                   case verb when 'upsert' then 'update set ' || replaced else 'nothing' end, spanning.tier_key)
       into is_hot using fields, spanning.id;
    return case when is_hot then 'hot' when not is_hot then 'delta' end;
end $$;
