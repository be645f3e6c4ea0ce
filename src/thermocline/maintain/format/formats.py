"""The interface of a lake table format: locate its tables, run its operations, measure a table's health.

What a format is called, which keys and operations it has and what it counts is data (`core.policy.formats`); this
is what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from thermocline.catalog.maintenance.lake_stats import StatsRow
from thermocline.catalog.safety import Owner
from thermocline.core.maintenance.outcome import Operation
from thermocline.core.names import TableName
from thermocline.core.policy.formats import Format
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.policy import Policy
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.runtime.pg import Connection

if TYPE_CHECKING:
    from thermocline.maintain.engines.engine import MaintenanceEngine
    from thermocline.maintain.plans.planning import Planned, PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A version of a table: its metadata location and its properties. Two versions have different locations."""

    location: str
    snapshot: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table under maintenance with its owner in the catalog; `label` is its name in messages."""

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
    """The interface that a format implements."""

    @property
    def format(self) -> Format: ...

    def locate(self, conn: Connection, name: TableName) -> Located:
        """Locate the current version of the table; `LakeTableMissing` when there is none."""

    def engine(self, name: str) -> MaintenanceEngine:
        """The engine of that name."""

    def plan(self, request: PlanRequest, engine: str) -> Planned:
        """Observe the table and plan one operation, as the engine of that name performs it."""

    def why_not_yet(
        self, operation: Operation, context: PassContext, last_done: Callable[[], datetime | None]
    ) -> str | None:
        """Why an operation that was not requested by name is postponed."""

    def measure_health(self, conn: Connection, target: Target, policy: Policy, before: StatsRow | None) -> FormatHealth:
        """Measure the health of a version that was not measured yet, under this policy."""
