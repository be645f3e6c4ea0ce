"""One operation of a pass over a table, as a pass runs it: planned, then performed by our own engine."""

from __future__ import annotations

from functools import partial

from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.maintain.context import PassContext
from thermocline.maintain.engines.spark import SparkEngine
from thermocline.maintain.operations.registry import plan_operation
from thermocline.maintain.run_operation import run_operation


def run(operation: Operation, context: PassContext) -> Outcome:
    return run_operation(operation, context, plan_operation, SparkEngine())


run_compact = partial(run, "compact")
run_convert_deletes = partial(run, "convert_deletes")
run_rewrite_position_delete_files = partial(run, "rewrite_position_delete_files")
run_expire_snapshots = partial(run, "expire_snapshots")
run_remove_orphans = partial(run, "remove_orphans")
run_rewrite_manifests = partial(run, "rewrite_manifests")
run_prune_metadata = partial(run, "prune_metadata")
