create or replace function thermocline.apply_domains(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    made record;
begin
    for made in select thermocline.lake_domain(of_table, c.field_id) as name, c.pg_type,
                       case when a.attcollation <> 0
                            then format(' collate %I.%I', n.nspname, o.collname) end as collated
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
