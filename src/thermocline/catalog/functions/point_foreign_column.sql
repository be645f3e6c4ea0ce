-- The foreign column asks the gateway for a field by its number and for a version, so that nothing known before answers
-- for it.
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
