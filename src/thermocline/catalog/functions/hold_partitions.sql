-- What is published of the heap's partitions holds until the publication ends: no partition is dropped or detached
-- (they need the heap), none made or attached (they need the spill). A session that does so now may wait for a lock of
-- ours, so we wait only briefly.
create or replace function thermocline.hold_partitions(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog set lock_timeout = '2s' as $$
declare
    relation oid;
begin
    for relation in select r.oid from thermocline.tables t cross join lateral (values (1, t.heap_oid),
                                (2, to_regclass(format('%I.%I', t.spill_schema, t.spill_name))::oid)) r(place, oid)
                     where t.id = of_table and exists (select from pg_class c where c.oid = r.oid) order by r.place
    loop
        execute format('lock table only %s in access share mode', relation::regclass);
    end loop;
end $$;
revoke all on function thermocline.hold_partitions(bigint) from public;
