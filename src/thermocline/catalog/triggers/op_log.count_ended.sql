create or replace trigger count_ended after update of phase on thermocline.op_log
    for each row when (new.table_id is not null and new.phase in ('published', 'abandoned')
                       and old.phase not in ('published', 'abandoned'))
    execute function thermocline.count_op();
-- A fold silences the user's own triggers by session_replication_role = replica; ours counts all the same.
alter table thermocline.op_log enable always trigger count_ended;
