-- The lake version that was published at a moment, for who may read all of the table; refuses with the oldest moment
-- there is.
create or replace function thermocline.version_at(target regclass, moment timestamptz, out heap regclass, out lake text,
                                                  out snapshot_id bigint)
    language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    wanted bigint;
    oldest timestamptz;
begin
    select p.id, p.heap_oid::regclass, format('thermocline_lake.%I', p.object_name) into wanted, heap, lake
      from thermocline.tables p
      cross join lateral (select to_regclass(format('%I.%I', p.seam_schema, p.table_name)) as seam) s
     where target in (p.heap_oid, s.seam) and has_table_privilege(thermocline.calling_role(), s.seam, 'select');
    if not found then
        raise exception 'TC206: % is not a table that spans Postgres and the lake', target
            using errcode = 'undefined_table', hint = 'Name a registered table or its seam that you may read.';
    end if;
    select p.snapshot_id into snapshot_id from thermocline.published p
     where p.table_id = wanted and p.at <= moment order by p.at desc limit 1;
    if not found then
        select min(p.at) into oldest from thermocline.published p where p.table_id = wanted;
        raise exception 'there is no lake version of % from before %', heap, moment
            using errcode = 'invalid_parameter_value',
            hint = coalesce('The oldest one is from ' || oldest || '.', 'The lake of this table holds nothing yet.');
    end if;
end $$;
