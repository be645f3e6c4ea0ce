-- Whether rows of the table are, or are about to be, in the lake or in the delta.
create or replace function thermocline.has_rows_outside(of_table bigint) returns boolean
    language plpgsql volatile set search_path = pg_catalog as $$
declare
    found_some boolean;
begin
    execute format('select c.s is not null or exists (select from thermocline_delta.%I)'
                   ' or exists (select from thermocline.partitions p'
                   ' where p.table_id = $1 and p.state in (''sealing'', ''tiering''))'
                   ' from thermocline.cutline c where c.table_id = $1',
                   (select t.object_name from thermocline.tables t where t.id = of_table))
       into found_some using of_table;
    return found_some;
end $$;
