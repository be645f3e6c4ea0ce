-- The only object of our schema that names the tables of the Iceberg catalog.
create or replace view thermocline.lake_pointers as
    select i.catalog_name as catalog, i.table_namespace as namespace, i.table_name as name,
           i.metadata_location, i.previous_metadata_location
      from thermocline_iceberg.iceberg_tables i;
comment on view thermocline.lake_pointers is 'The current and the previous metadata file of each lake table.';
