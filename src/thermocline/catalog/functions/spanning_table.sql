-- The functions below run with the caller's rights: Postgres itself checks them on the heap and on the seam.
create or replace function thermocline.spanning_table(target regclass) returns thermocline.spanning
    language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    found_table thermocline.spanning;
begin
    select * into found_table from thermocline.spanning p where target in (p.heap, p.seam);
    if not found then
        raise exception 'TC206: % is not a table that spans Postgres and the lake', target
            using errcode = 'undefined_table', hint = 'Name a registered table or its seam that you have a right on.';
    end if;
    return found_table;
end $$;
