-- A template of this table, whole. Fragments are ours alone and may hold places, and fragments, themselves.
create or replace function thermocline.rendered(of_table bigint, template text, parts jsonb) returns text
    language plpgsql stable set search_path = pg_catalog as $$
declare
    fragments jsonb := (select jsonb_object_agg(f.name, f.body) from thermocline.templates f
                         where f.name in ('raise_conflict', 'raise_twice', 'write_tombstone', 'refuse_existing',
                                          'changed_meanwhile', 'refuse_unfollowed', 'skip_folded', 'not_ours',
                                          'refuse_detached', 'refuse_renamed', 'heap_reads_old', 'delta_reads_old',
                                          'changed_in_delta', 'narrate_insert', 'narrate_update', 'narrate_delete',
                                          'refuse_expired'));
    body text := (select b.body from thermocline.templates b where b.name = template);
begin
    if (select t.lake_retention is null from thermocline.tables t where t.id = of_table) then
        fragments := fragments || jsonb_build_object('refuse_expired', '');
    end if;
    -- Where the heap keeps its rows, no publication deletes any.
    if (select t.keep_heap from thermocline.tables t where t.id = of_table) then
        fragments := fragments || jsonb_build_object('skip_folded', '');
    end if;
    return thermocline.filled(thermocline.filled(thermocline.filled(body, fragments), fragments), parts);
end $$;
