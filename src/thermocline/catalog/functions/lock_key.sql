-- The advisory lock that the seam's functions take on a key that only the lake holds (`key_lock` in seam/objects.py).
create or replace function thermocline.lock_key(target thermocline.spanning, key jsonb) returns void
    language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
    hashed bigint;
begin
    execute format('select hash_record_extended(row(%s), $2) from jsonb_populate_record(null::%s, $1) r',
                   (select string_agg(format('r.%I', k), ', ' order by place)
                      from unnest(target.pk) with ordinality p(k, place)), target.heap)
       into hashed using key, target.id;
    perform pg_advisory_xact_lock(hashed);
exception when undefined_function then
    -- a key type that cannot be hashed: one lock for the table
    perform pg_advisory_xact_lock(746101, target.id::integer);
end $$;
