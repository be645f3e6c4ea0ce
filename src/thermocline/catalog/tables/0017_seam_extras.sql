-- A DROP COLUMN … CASCADE that no event trigger sees takes the seam along; the next cycle makes it again.
alter table thermocline.tables add column seam_extras jsonb;
comment on column thermocline.tables.seam_extras is
    'Grants, options and comments of the seam as the last cycle saw them; columns by their number in the heap. A seam '
    'that is made anew gets them again.';
