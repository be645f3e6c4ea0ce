-- Whether a row trigger of the user's may keep a row of this table, or of a partition of it, from being written.
create or replace function thermocline.has_before_trigger(heap regclass) returns boolean
    language sql stable strict set search_path = pg_catalog as $$
    select exists (select from pg_trigger t where t.tgrelid in (select relid from pg_partition_tree(heap))
                      and not t.tgisinternal and t.tgtype & 3 = 3 and t.tgenabled <> 'D') $$;
