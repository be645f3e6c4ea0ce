-- Folding: what the cut-line, the journal and the requests need for it.

alter table thermocline.cutline add column folding_xid xid8;
comment on column thermocline.cutline.folding_xid is
    'The transaction that published the last fold: what it deletes from the spill lies in the lake, so it is not captured as deleted.';

alter table thermocline.op_log add column published_xid xid8, add column purged_at timestamptz;
comment on column thermocline.op_log.published_xid is 'The transaction that published the op; a fold''s marks in the delta carry it.';
comment on column thermocline.op_log.purged_at is 'When the marked rows of a fold left the delta, because nobody could miss them any more.';
create index op_log_unpurged on thermocline.op_log (table_id) where kind = 'fold' and phase = 'published' and purged_at is null;

alter table thermocline.requests drop constraint requests_verb_check;
alter table thermocline.requests add constraint requests_verb_check check (verb ~ '^[a-z_]+$');
