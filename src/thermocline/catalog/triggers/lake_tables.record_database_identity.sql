create or replace trigger record_database_identity after insert on thermocline.lake_tables
    for each statement execute function thermocline.record_database_identity();
