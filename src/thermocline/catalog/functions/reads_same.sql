-- Whether two rows of other bytes read the same: a value that went through the lake may have lost the sign of a NaN or
-- an array's unused bitmap of NULLs. Called only where the bytes differ.
create or replace function thermocline.reads_same(one record, other record) returns boolean
    language plpgsql stable strict set search_path = pg_catalog set datestyle = 'ISO, YMD' set timezone = 'UTC'
    set intervalstyle = 'postgres' set bytea_output = 'hex' set extra_float_digits = 1 as $$
begin
    return one::text collate "C" = other::text collate "C";
end $$;
