-- The foreign column requests a field from the gateway by its number and version, so that no cached plan or value of an
-- earlier column answers for it.
create or replace function thermocline.point_foreign_column(relation text, column_name text, field_id integer,
                                                            version integer) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    execute format('alter foreign table %s alter column %I options (%s column_name %L)', relation, column_name,
        case when exists (select from pg_attribute a, unnest(a.attfdwoptions) o
                           where a.attrelid = relation::regclass and a.attname = column_name
                             and o like 'column\_name=%') then 'set' else 'add' end,
        format('#%s.%s', field_id, version));
end $$;
