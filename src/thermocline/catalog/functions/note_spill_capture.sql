-- Notes that the spill's changes were not captured for a time: rows of it may be missing where readers look. Whether
-- they were not, or are not.
create or replace function thermocline.note_spill_capture(of_table bigint) returns boolean
    language sql volatile set search_path = pg_catalog as $$
    update thermocline.tables t set spill_capture_lost_at = clock_timestamp()
     where t.id = of_table and not thermocline.is_captured(to_regclass(format('%I.%I', t.spill_schema, t.spill_name)));
    select t.spill_capture_lost_at is not null from thermocline.tables t where t.id = of_table $$;
revoke all on function thermocline.note_spill_capture(bigint) from public;
