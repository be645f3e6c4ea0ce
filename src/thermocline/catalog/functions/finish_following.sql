-- Called once the lake has the columns: adds them to the foreign table, and the view reads them there.
create or replace function thermocline.finish_following(of_table bigint) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    t thermocline.tables;
    lake text;
    c record;
begin
    perform thermocline.loosen_seam(of_table);
    perform thermocline.release_lake(of_table);
    select * into strict t from thermocline.tables where id = of_table for update;
    lake := format('thermocline_lake.%I', t.object_name);
    perform thermocline.apply_domains(of_table);
    for c in select x.name, x.absent, x.field_id, l.foreign_type from thermocline.columns x
               join thermocline.live_columns(of_table) l on l.name = x.name
              where x.table_id = of_table and (x.absent or x.held_as is not null)
    loop
        execute format('alter foreign table %s %s column %I %s %s', lake,
                       case when c.absent then 'add' else 'alter' end, c.name,
                       case when c.absent then '' else 'type' end, c.foreign_type);
        perform thermocline.point_foreign_column(lake, c.name, c.field_id, t.schema_version);
    end loop;
    update thermocline.columns x set absent = false, held_as = null
     where x.table_id = of_table and (x.absent or x.held_as is not null);
    perform thermocline.apply_view(of_table, (select k.seam_line from thermocline.cutline k
                                               where k.table_id = of_table));
    update thermocline.tables x set lake_behind = false where x.id = of_table;
end $$;
revoke all on function thermocline.finish_following(bigint) from public;
