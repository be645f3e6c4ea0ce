"""Who runs the operations of a pass: our kernels in Spark tasks, Iceberg's own procedures, or a program outside."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol

from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.maintenance_errors import EngineUnknown
from thermocline.ops.maintain.context import PassContext

_PLACES: dict[Operation, str] = {
    "convert_deletes": "deletes",
    "compact": "compact",
    "rewrite_position_delete_files": "deletes",
    "expire_snapshots": "expire",
    "remove_orphans": "orphans",
    "rewrite_manifests": "manifests",
    "prune_metadata": "prune",
}


class MaintenanceEngine(Protocol):
    """Runs one operation of a pass within the context's bounds."""

    name: str

    def run(self, operation: Operation, context: PassContext) -> Outcome: ...


class SparkEngine:
    """Ours: planning here, bytes in Spark tasks, commits by compare-and-swap."""

    name = "spark"

    def run(self, operation: Operation, context: PassContext) -> Outcome:
        runner: Callable[[PassContext], Outcome] = getattr(
            import_module(f"thermocline.ops.maintain.{_PLACES[operation]}"), f"run_{operation}"
        )
        return runner(context)


def engine_named(name: str) -> MaintenanceEngine:
    match name:
        case "spark":
            return SparkEngine()
    raise EngineUnknown(f"unknown THERMOCLINE_MAINTENANCE_ENGINE {name!r}")
