create or replace function thermocline.refuse_change(of_table bigint, change text, reason text) returns void
    language plpgsql volatile set search_path = pg_catalog as $$
begin
    raise exception 'the lake of %.% cannot follow this change: %',
        (select t.schema_name from thermocline.tables t where t.id = of_table),
        (select t.table_name from thermocline.tables t where t.id = of_table), concat_ws('; ', change, reason)
        using errcode = 'feature_not_supported',
        hint = 'Undo the change, or unregister the table first and register it again after it.';
end $$;
