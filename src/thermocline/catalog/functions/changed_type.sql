-- A type of the table's that no longer reads what lake files may hold, as a sentence; null when there is none.
create or replace function thermocline.changed_type(of_table bigint) returns text
    language sql stable set search_path = pg_catalog as $$
    select c.change from (
        select format('value %L of type %s was renamed to %L; the lake holds it by its old name', k.label,
                      e.enumtypid::regtype, e.enumlabel)
          from thermocline.enum_labels k join pg_enum e on e.oid = k.label_oid
         where e.enumlabel <> k.label and e.enumtypid in (select thermocline.types_of(of_table))
        union all
        select case y.typtype
               when 'c' then format('type %s got or lost attributes; the lake holds its values as they were',
                                    y.oid::regtype)
               else format('domain %s got a constraint; values in the lake were not checked against it',
                           y.oid::regtype) end
          from thermocline.type_shapes k join pg_type y on y.oid = k.type_oid
         where case y.typtype when 'c' then thermocline.type_shape(y.oid) <> k.shape
                    else not thermocline.type_shape(y.oid) <@ k.shape end
           and y.oid in (select thermocline.types_of(of_table))) c(change)
     limit 1 $$;
