-- The heap's grants as the seam followed them last, so that only changes are followed: what was granted or revoked on
-- the seam itself stays.
alter table thermocline.tables add column heap_grants jsonb;
comment on column thermocline.tables.heap_grants is
    'What thermocline.grants_on says of the heap as the seam followed it last; null before the first cycle.';
