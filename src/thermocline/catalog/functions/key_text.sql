-- A position on the axis as the text of the key.
create or replace function thermocline.key_text(key_type text, place bigint) returns text
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    from_axis text := (select c.from_axis from thermocline.column_types c where c.name = key_type);
    shown text := place;
begin
    if from_axis is not null then
        execute format('select thermocline.%I($1)::text', from_axis) into shown using place;
    end if;
    return shown;
end $$;
