create or replace function thermocline.forbid_line_regression() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    if new.line < old.line then
        raise exception 'the retention line of table % cannot move back', old.table_id
            using errcode = 'check_violation';
    end if;
    return new;
end $$;
