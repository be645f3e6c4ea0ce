-- The seam's refusal where a policy of the heap would hide rows from the reader: no policy can be applied to rows of
-- the lake, and the view reads the heap with its owner's rights.
create or replace function thermocline.refuse_row_security(heap regclass) returns boolean
    language plpgsql stable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'TC515: % has row-level security, which cannot be applied to rows in the lake', heap
        using errcode = 'insufficient_privilege',
        hint = 'Disable row-level security on the table, or unregister it.';
end $$;
