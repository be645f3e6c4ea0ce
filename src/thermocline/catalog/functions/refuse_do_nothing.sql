create or replace function thermocline.refuse_do_nothing() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    if thermocline.shows_do_nothing(current_query(), tg_table_schema, tg_table_name) then
        raise exception 'ON CONFLICT does not work on the seam %.%', tg_table_schema, tg_table_name
            using errcode = 'feature_not_supported',
            hint = 'Insert into the table by its own name, or call thermocline.insert_if_absent() or'
                   ' thermocline.upsert().';
    end if;
    return null;
end $$;
