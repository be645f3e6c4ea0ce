"""The seam to a format of lake tables: where its tables are, who runs its operations, how well a table is.

What a format is called, which keys and operations it has and what it counts is data (`core.policy.formats`); this
is what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from thermocline.catalog.maintenance.lake_stats import StatsRow
from thermocline.catalog.safety import Owner
from thermocline.core.maintenance.outcome import Operation
from thermocline.core.names import TableName
from thermocline.core.policy.formats import Format
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.policy import Policy
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.maintain.engines.engine import MaintenanceEngine
from thermocline.maintain.plans.planning import Planned, PlanRequest
from thermocline.runtime.pg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A version of a table: where it is described, and the properties it has there. Two versions have two locations."""

    location: str
    snapshot: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table under maintenance with its owner in the catalog; `label` is the name it goes by among people."""

    target: LakeTarget
    owner: Owner
    label: str
    metadata_location: str
    snapshot: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    format: Format = ICEBERG


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatHealth:
    """A table's health: figures under the names the format declares, and warnings by what they are about."""

    figures: Mapping[str, Any]
    warnings: Mapping[str, str] = field(default_factory=dict)


class LakeFormat(Protocol):
    """What the program asks of a format."""

    @property
    def format(self) -> Format: ...

    def locate(self, conn: Connection, name: TableName) -> Located:
        """The table now; `LakeTableMissing` when there is none."""

    def engine(self, name: str) -> MaintenanceEngine:
        """The engine of that name."""

    def plan(self, request: PlanRequest, engine: str) -> Planned:
        """Observe the table and plan one operation, as the engine of that name performs it."""

    def why_not_yet(
        self, operation: Operation, context: PassContext, last_done: Callable[[], datetime | None]
    ) -> str | None:
        """Why an operation that nobody named is put off."""

    def measure_health(self, conn: Connection, target: Target, policy: Policy, before: StatsRow | None) -> FormatHealth:
        """How well a version is that was not looked at yet, under this policy."""
