-- name: add
insert into thermocline.lake_tables (catalog, namespace, name, format)
values (%(catalog)s, %(namespace)s, %(name)s, %(format)s)
on conflict (catalog, namespace, name) do nothing

-- name: note_format
with gone as (
    delete from thermocline.format_operations where format = %(format)s and operation <> all (%(operations)s))
insert into thermocline.format_operations (format, operation, place)
select %(format)s, operation, place from unnest(%(operations)s::text[]) with ordinality as o(operation, place)
on conflict (format, operation) do update set place = excluded.place

-- name: by_name
select id, namespace, name, added_at, format from thermocline.lake_tables
 where catalog = %(catalog)s and namespace = %(namespace)s and name = %(name)s

-- name: by_id
select id, namespace, name, added_at, format from thermocline.lake_tables where id = %(lake_id)s

-- name: all
select id, namespace, name, added_at, format from thermocline.lake_tables order by namespace, name

-- name: remove
-- An op that nobody has decided may be in the lake. Its files leave the journal first: there a file without its op is
-- waste.
with undecided as (
    delete from thermocline.staged_files where op_id in (
        select op_id from thermocline.op_log
         where lake_id = %(lake_id)s and kind <> 'maintain' and phase not in ('published', 'abandoned')))
delete from thermocline.lake_tables where id = %(lake_id)s

-- name: is_registered
select schema_name, table_name from thermocline.tables where lake_namespace = %(namespace)s and lake_name = %(name)s

-- name: maintained
select m.table_id, m.lake_id, m.namespace, m.name, m.schema_name, m.table_name, i.metadata_location,
       i.previous_metadata_location, m.format
  from thermocline.maintained m
  left join thermocline.lake_pointers i on (i.catalog, i.namespace, i.name) = (m.catalog, m.namespace, m.name)
 order by m.namespace, m.name
