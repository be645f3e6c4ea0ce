create or replace trigger note_home after insert on thermocline.lake_tables
    for each statement execute function thermocline.note_home();
