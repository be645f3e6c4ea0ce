"""The engine `external`: another program rewrites the bins, and the Spark task that ran it checks its files."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.catalog.maintenance.passes import bounds_record
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors.maintenance import EngineUnsuitable
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.operations.compact import run_compact
from thermocline.maintain.operations.registry import RUNNERS
from thermocline.spark.kernels.external_program import ExternalKernel


@dataclass(frozen=True, slots=True)
class ExternalEngine:
    """Hands bins to the program, with the bounds of the plan; runs the other operations itself."""

    name: str = "external"

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        if plan.operation != "compact":
            return RUNNERS[plan.operation](applier)
        command = applier.context.settings.maintenance_external_command
        if not command:
            raise EngineUnsuitable(
                "The engine external needs a program.", hint="Name it by THERMOCLINE_MAINTENANCE_EXTERNAL_COMMAND."
            )
        return run_compact(applier, ExternalKernel(command=command, bounds=bounds_record(plan.bounds)))
