create or replace function thermocline.count_op() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    insert into thermocline.op_totals as c (table_id, kind, published, abandoned, rows, bytes)
    values (new.table_id, new.kind, (new.phase = 'published')::int, (new.phase = 'abandoned')::int,
            case when new.phase = 'published' then coalesce((new.counters ->> 'rows')::bigint, 0) else 0 end,
            case when new.phase = 'published' then coalesce((new.counters ->> 'bytes')::bigint, 0) else 0 end)
    on conflict (table_id, kind) do update
       set published = c.published + excluded.published, abandoned = c.abandoned + excluded.abandoned,
           rows = c.rows + excluded.rows, bytes = c.bytes + excluded.bytes;
    return null;
end $$;
