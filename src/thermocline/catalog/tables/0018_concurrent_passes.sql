-- The column that marks passes that may run at the same time has the name of what it says.
alter table thermocline.op_log rename column beside to may_run_concurrently;
comment on column thermocline.op_log.may_run_concurrently is
    'A pass that compacts named partitions alone: others like it may run at the same time.';
-- A request that was filed before the upgrade and waits for a worker.
update thermocline.maintenance_requests
   set wish = (wish - 'beside') || jsonb_build_object('may_run_concurrently', wish -> 'beside')
 where wish ? 'beside';
alter table thermocline.maintenance_requests rename column wish to request;
