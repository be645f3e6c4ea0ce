create or replace function thermocline.note_types(of_table bigint) returns void
    language sql volatile set search_path = pg_catalog as $$
    insert into thermocline.enum_labels (label_oid, label)
    select e.oid, e.enumlabel from pg_enum e where e.enumtypid in (select thermocline.types_of(of_table))
    on conflict (label_oid) do update set label = excluded.label where enum_labels.label <> excluded.label;
    insert into thermocline.type_shapes (type_oid, shape)
    select y.oid, thermocline.type_shape(y.oid) from pg_type y
     where y.typtype in ('c', 'd') and y.oid in (select thermocline.types_of(of_table))
    on conflict (type_oid) do update set shape = excluded.shape where type_shapes.shape <> excluded.shape $$;
revoke all on function thermocline.note_types(bigint) from public;
