-- The foreign table on its own again, for a change of its columns: a partition has its parent's. Only while the view
-- reads nothing of it (`loosen_seam`); `apply_view` makes the parent anew.
create or replace function thermocline.release_lake(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    parent text := thermocline.lake_range(of_table, 'range');
    lake text := (select format('thermocline_lake.%I', t.object_name) from thermocline.tables t where t.id = of_table);
begin
    if to_regclass(parent) is null then return; end if;
    if exists (select from pg_inherits i where i.inhrelid = to_regclass(lake)) then
        execute format('alter table %s detach partition %s', parent, lake);
    end if;
    execute format('drop table %s', parent);
end $$;
revoke all on function thermocline.release_lake(bigint) from public;
