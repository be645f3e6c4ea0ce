"""The operations on Iceberg tables: how each is planned, and how our own engine performs the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.operations.compact import plan_compact, run_compact
from thermocline.maintain.operations.expire_snapshots import plan_expire_snapshots, run_expire_snapshots
from thermocline.maintain.operations.prune_metadata import plan_prune_metadata, run_prune_metadata
from thermocline.maintain.operations.remove_orphans import plan_remove_orphans, run_remove_orphans
from thermocline.maintain.operations.rewrite_delete_files import (
    plan_convert_deletes,
    plan_rewrite_position_delete_files,
    run_convert_deletes,
    run_rewrite_position_delete_files,
)
from thermocline.maintain.operations.rewrite_manifests import plan_rewrite_manifests, run_rewrite_manifests
from thermocline.maintain.plans.planning import Planned, Planner, PlanRequest

PLANNERS: Mapping[Operation, Planner] = {
    "convert_deletes": plan_convert_deletes,
    "compact": plan_compact,
    "rewrite_position_delete_files": plan_rewrite_position_delete_files,
    "expire_snapshots": plan_expire_snapshots,
    "remove_orphans": plan_remove_orphans,
    "rewrite_manifests": plan_rewrite_manifests,
    "prune_metadata": plan_prune_metadata,
}
RUNNERS: Mapping[Operation, Callable[[Applier], Outcome]] = {
    "convert_deletes": run_convert_deletes,
    "compact": run_compact,
    "rewrite_position_delete_files": run_rewrite_position_delete_files,
    "expire_snapshots": run_expire_snapshots,
    "remove_orphans": run_remove_orphans,
    "rewrite_manifests": run_rewrite_manifests,
    "prune_metadata": run_prune_metadata,
}


def plan_operation(request: PlanRequest) -> Planned:
    """Plan an operation as our own engine performs it."""
    return PLANNERS[request.operation](request)
