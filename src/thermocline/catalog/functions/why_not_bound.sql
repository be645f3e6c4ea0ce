-- Why the table of this name is not the one that was registered, or null: its spill is the DEFAULT partition, with our
-- trigger, and every column is there with its type. A table made anew under the same name has no such spill.
create or replace function thermocline.why_not_bound(of_table bigint) returns text
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
                    where g.tgrelid = spill and g.tgname = 'thermocline_capture'
                      and f.pronamespace = 'thermocline_fn'::regnamespace
                      and f.proname = t.object_name || '_capture') then
        return format('%I.%I has not the capture trigger of this registration', t.spill_schema, t.spill_name);
    end if;
    select format('column %I is not there as %s', c.name, c.pg_type) into missing from thermocline.columns c
     where c.table_id = of_table and not exists (select from pg_attribute a where a.attrelid = heap
                                                    and a.attname = c.name and a.attnum > 0
                                                  and not a.attisdropped and format_type(a.atttypid,
                                                          a.atttypmod) = c.pg_type) limit 1;
    return missing;
end $$;
revoke all on function thermocline.why_not_bound(bigint) from public;
