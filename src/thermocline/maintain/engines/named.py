"""The engines by name."""

from __future__ import annotations

from thermocline.core.messages.nearest import render_nearest
from thermocline.errors.maintenance import EngineUnknown
from thermocline.maintain.engines.engine import MaintenanceEngine
from thermocline.maintain.engines.external import ExternalEngine
from thermocline.maintain.engines.procedures import ProceduresEngine
from thermocline.maintain.engines.spark import SparkEngine
from thermocline.runtime.settings import MAINTENANCE_ENGINES


def engine_named(name: str) -> MaintenanceEngine:
    match name:
        case "spark":
            return SparkEngine()
        case "spark-procedures":
            return ProceduresEngine()
        case "external":
            return ExternalEngine()
    raise EngineUnknown(
        f"unknown THERMOCLINE_MAINTENANCE_ENGINE {name!r}", hint=render_nearest(name, MAINTENANCE_ENGINES)
    )
