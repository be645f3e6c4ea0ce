"""The protocol of a maintenance engine, which performs the plans of a pass.

Planning, bounds, commits and deletions are the runner's with every engine: an engine gets a plan and an applier, and
the applier refuses what is outside the plan. `spark` performs every operation by our own kernels; `spark-procedures`
hands compaction, position deletes and manifests to Iceberg's actions; `external` hands each bin to another program and
checks what comes back. Operations that delete files are ours with every engine.
"""

from __future__ import annotations

from typing import Protocol

from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.maintain.commits.applier import Applier


class MaintenanceEngine(Protocol):
    """Performs one plan. What it changes, it changes through the applier."""

    @property
    def name(self) -> str: ...

    def run(self, plan: MaintenancePlan, applier: Applier) -> Outcome: ...
