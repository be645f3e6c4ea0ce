create or replace trigger record_database_identity after insert on thermocline.tables
    for each statement execute function thermocline.record_database_identity();
