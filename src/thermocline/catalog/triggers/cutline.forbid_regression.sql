create or replace trigger forbid_regression before update on thermocline.cutline
    for each row execute function thermocline.forbid_cutline_regression();
