-- Whether changes of a partition or of the spill become corrections: its capture trigger is there and fires always.
create or replace function thermocline.is_captured(relation oid) returns boolean
    language sql stable set search_path = pg_catalog as $$
    select exists (select from pg_trigger g
                    where g.tgrelid = relation and g.tgname = 'thermocline_capture' and g.tgenabled = 'A') $$;
