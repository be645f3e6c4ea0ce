-- One statement reads T, S, the pointer and the corrections that wait, and writes the pin: all are of one point in
-- time.
create or replace function thermocline.pin(target regclass, ttl interval default interval '15 minutes',
                                           out id bigint, out snapshot_id bigint, out metadata_location text,
                                           out t bigint, out expires_at timestamptz, out pending_corrections bigint)
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    wanted thermocline.tables;
    reader name := thermocline.calling_role();
begin
    perform thermocline.check_pin_ttl(ttl);
    select p.* into wanted from thermocline.tables p
      cross join lateral (select to_regclass(format('%I.%I', p.seam_schema, p.table_name)) as seam) s
     where target in (p.heap_oid, s.seam)
       and (has_any_column_privilege(reader, p.heap_oid, 'select')
            or has_any_column_privilege(reader, s.seam, 'select'));
    if not found then
        raise exception 'TC206: % is not a table that spans Postgres and the lake', target
            using errcode = 'undefined_table', hint = 'Name a registered table or its seam that you may read.';
    end if;
    execute format($pin$
    with made as (
        insert into thermocline.read_pins (table_id, snapshot_id, metadata_location, t, holder, expires_at)
        select c.table_id, c.s, i.metadata_location, c.t, $2, clock_timestamp() + $3
          from thermocline.cutline c
          join thermocline.tables p on p.id = c.table_id
          join thermocline.lake_pointers i
            on (i.catalog, i.namespace, i.name) = ('thermocline', p.lake_namespace, p.lake_name)
         where c.table_id = $1
        returning read_pins.*)
    select m.id, m.snapshot_id, m.metadata_location, m.t, m.expires_at,
           (select count(*) from thermocline_delta.%1$I d where d._folded is null and d.%2$I < %3$s)
      from made m
    $pin$, wanted.object_name, wanted.tier_key, thermocline.key_expression(wanted.key_type, 'm.t'))
       into id, snapshot_id, metadata_location, t, expires_at, pending_corrections
      using wanted.id, reader, ttl;
    if pending_corrections > 0 then
        raise notice '% corrections of %.% wait in Postgres and are not in the lake at this snapshot',
                     pending_corrections, wanted.schema_name, wanted.table_name
            using hint = format('Read the seam to see them, or fold first: thermocline fold %s.%s.',
                                wanted.schema_name, wanted.table_name);
    end if;
end $$;
comment on function thermocline.pin(regclass, interval) is
    'Protects the published lake snapshot for a reader outside Postgres until it expires; gives the snapshot, its'
    ' metadata file, T and how many corrections of older rows the lake does not hold yet.';
