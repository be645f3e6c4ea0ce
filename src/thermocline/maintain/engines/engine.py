"""Who runs the operations of a pass: our kernels in Spark tasks, Iceberg's own procedures, or a program outside.

Planning, bounds and commits are ours with every engine. `spark-procedures` hands compaction, position deletes and
manifests to Iceberg's actions; `external` hands each bin out as JSON and checks what comes back. What deletes files is
never handed out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from thermocline.catalog.maintenance.passes import bounds_record
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.errors.maintenance import EngineUnknown, EngineUnsuitable
from thermocline.maintain.context import PassContext
from thermocline.maintain.engines.procedures import PROCEDURES, run_procedure
from thermocline.maintain.operations.compact import run_compact
from thermocline.maintain.operations.delete_files import run_convert_deletes, run_rewrite_position_delete_files
from thermocline.maintain.operations.expire_snapshots import run_expire_snapshots
from thermocline.maintain.operations.prune_metadata import run_prune_metadata
from thermocline.maintain.operations.remove_orphans import run_remove_orphans
from thermocline.maintain.operations.rewrite_manifests import run_rewrite_manifests
from thermocline.maintain.safety import look, read_bounds
from thermocline.runtime.settings import MAINTENANCE_ENGINES
from thermocline.spark.kernels.external_program import ExternalKernel

_OPERATIONS: dict[Operation, Callable[[PassContext], Outcome]] = {
    "convert_deletes": run_convert_deletes,
    "compact": run_compact,
    "rewrite_position_delete_files": run_rewrite_position_delete_files,
    "expire_snapshots": run_expire_snapshots,
    "remove_orphans": run_remove_orphans,
    "rewrite_manifests": run_rewrite_manifests,
    "prune_metadata": run_prune_metadata,
}


class MaintenanceEngine(Protocol):
    """Runs one operation of a pass within the context's bounds."""

    name: str

    def run(self, operation: Operation, context: PassContext) -> Outcome: ...


class SparkEngine:
    """Ours: planning here, bytes in Spark tasks, commits by compare-and-swap."""

    name = "spark"

    def run(self, operation: Operation, context: PassContext) -> Outcome:
        return _OPERATIONS[operation](context)


class ProceduresEngine:
    """Iceberg's own rewrites."""

    name = "spark-procedures"

    def run(self, operation: Operation, context: PassContext) -> Outcome:
        return run_procedure(operation, context) if operation in PROCEDURES else _OPERATIONS[operation](context)


class ExternalEngine:
    """Bins are rewritten by a program outside, and checked before anything is committed."""

    name = "external"

    def run(self, operation: Operation, context: PassContext) -> Outcome:
        if operation != "compact":
            return _OPERATIONS[operation](context)
        command = context.settings.maintenance_external_command
        if not command and not context.dry_run:
            raise EngineUnsuitable(
                "The engine external needs a program.", hint="Name it by THERMOCLINE_MAINTENANCE_EXTERNAL_COMMAND."
            )
        bounds = read_bounds(context, look(context))
        context.note_bounds(bounds)
        return run_compact(replace(context, kernel=ExternalKernel(command=command or "", bounds=bounds_record(bounds))))


def engine_named(name: str) -> MaintenanceEngine:
    match name:
        case "spark":
            return SparkEngine()
        case "spark-procedures":
            return ProceduresEngine()
        case "external":
            return ExternalEngine()
    raise EngineUnknown(
        f"unknown THERMOCLINE_MAINTENANCE_ENGINE {name!r}", hint=f"Engines are {', '.join(MAINTENANCE_ENGINES)}."
    )
