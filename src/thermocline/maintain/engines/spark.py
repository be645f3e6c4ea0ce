"""The engine `spark`: our own kernels in Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.operations.compact import run_compact
from thermocline.maintain.operations.registry import RUNNERS
from thermocline.parquet.rewrite_task import BinResult
from thermocline.spark.jobs.compact import Kernel
from thermocline.spark.kernels.compact_bin import run_bin


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Rewrites bins by `kernel`, inside Spark tasks."""

    kernel: Kernel[BinResult] = run_bin
    name: str = "spark"

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome:
        if plan.operation == "compact":
            return run_compact(applier, self.kernel)
        return RUNNERS[plan.operation](applier)
