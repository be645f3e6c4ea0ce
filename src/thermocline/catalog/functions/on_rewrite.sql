-- A statement that rewrites the values of the heap's rows reaches no row of the lake or the delta: it is refused once
-- there are any, unless its text shows that values stay as they are. What comes with a new column is judged by
-- follow_added().
create or replace function thermocline.on_rewrite() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    rewritten constant oid := pg_event_trigger_table_rewrite_oid();
    reason constant integer := pg_event_trigger_table_rewrite_reason(); -- 2 for values of their own, 4 for another type
    t record;
    context text;
    statement text;
    why text;
begin
    if reason & 6 = 0 then return; end if;
    select r.id, format('%I.%I', r.schema_name, r.table_name) as name into t
      from thermocline.tables_here r where r.heap_oid in (rewritten, pg_partition_root(rewritten));
    if not found then return; end if;
    perform from thermocline.cutline k where k.table_id = t.id for share;
    if not thermocline.has_rows_outside(t.id) then return; end if;
    get diagnostics context = pg_context;
    statement := thermocline.statement_text(context);
    if reason & 4 <> 0 and coalesce(thermocline.without_plain_using(statement) ~* '\musing\M', true) then
        why := 'USING would change the values in the heap alone, and rows in the lake would keep theirs';
    elsif reason & 2 <> 0 and coalesce(statement ~* '\mexpression\M', true) then
        why := 'another expression of a generated column would change the values in the heap alone';
    else
        return;
    end if;
    raise exception 'the lake of % cannot follow this change: %', t.name, why using errcode = 'feature_not_supported',
        hint = 'Add another column, UPDATE the seam with its values, drop the old column and rename the new one.'
               ' A type that only widens needs no USING.';
end $$;
revoke all on function thermocline.on_rewrite() from public;
