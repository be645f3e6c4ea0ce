create or replace function thermocline.forbid_cutline_regression() returns trigger
    language plpgsql set search_path = pg_catalog as $$
begin
    if new.t < old.t or new.epoch < old.epoch or new.fence < old.fence or new.seam_line < old.seam_line
       or new.seam_floor < old.seam_floor or new.r < old.r
       or (new.s is null and old.s is not null) or (new.r is null and old.r is not null) then
        raise exception 'the cut-line of table % cannot move back', old.table_id using errcode = 'check_violation';
    end if;
    return new;
end $$;
