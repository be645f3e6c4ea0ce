create or replace trigger forbid_regression before update on thermocline.retention
    for each row execute function thermocline.forbid_line_regression();
