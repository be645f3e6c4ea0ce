create or replace trigger forbid_regression before update on thermocline.partitions
    for each row execute function thermocline.forbid_partition_regression();
