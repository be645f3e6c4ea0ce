-- The view without any of its arms: it depends on neither the heap nor the delta nor the foreign table. Only within one
-- transaction.
create or replace function thermocline.loosen_seam(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    seam oid := (select to_regclass(format('%I.%I', t.seam_schema, t.table_name)) from thermocline.tables t
                  where t.id = of_table);
begin
    if seam is null then return; end if;
    execute format('create or replace view %s as select %s where false', seam::regclass,
        (select string_agg(format('null::%s%s as %I', format_type(a.atttypid, a.atttypmod),
                                  case when a.attcollation <> 0 then format(' collate %I.%I', n.nspname, c.collname)
                                       else '' end, a.attname),
                           ', ' order by a.attnum)
           from pg_attribute a left join pg_collation c on c.oid = a.attcollation
           left join pg_namespace n on n.oid = c.collnamespace
          where a.attrelid = seam and a.attnum > 0 and not a.attisdropped));
end $$;
revoke all on function thermocline.loosen_seam(bigint) from public;
