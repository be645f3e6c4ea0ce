"""A maintenance plan: what one operation changes in one table, and the bounds it must keep.

    observe → plan (this value) → check against the bounds → apply → record

A dry run prints the value that an engine performs. Nothing alters a plan after it was made; when the table changed, a
new plan takes its place as a whole. `maintain/commits/applier.py` refuses changes of an engine outside its plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from thermocline.core.maintenance.bins import CompactionPlan
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.delete_plans import DeletesPlan
from thermocline.core.maintenance.expiry import ExpiryChange
from thermocline.core.maintenance.manifests import ManifestPlan
from thermocline.core.maintenance.orphans import MetadataPlan, SweepPlan
from thermocline.core.maintenance.outcome import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureCall:
    """One of Iceberg's own rewrites, with the options it is called with.

    Iceberg chooses the files. The result must hold the rows of the planned snapshot and keep every other snapshot.
    """

    procedure: Operation
    strategy: str | None = None
    columns: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatChange:
    """What an operation of another format than Iceberg changes, in the format's own words."""

    sentence: str
    steps: tuple[str, ...] = ()


Change = (
    CompactionPlan | DeletesPlan | ManifestPlan | ExpiryChange | SweepPlan | MetadataPlan | ProcedureCall | FormatChange
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """One operation on the version of the table at `metadata_location`. Without a `change`, `idle` or
    `refused` says why."""

    operation: Operation
    metadata_location: str
    snapshot: int | None
    bounds: Bounds
    change: Change | None
    idle: str | None = None
    refused: str | None = None
    """Why the operation cannot be planned for this table."""
    notes: tuple[str, ...] = ()
    """Why groups are left as they are, and which threshold decided."""
    idle_counters: Mapping[str, int] = field(default_factory=dict)
    """What is counted when there is nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperation:
    """One operation of a printed plan. `steps` say what it would do, or why it would do nothing."""

    operation: Operation
    will_run: bool
    sentence: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPlan:
    """The plans of all operations of a pass, as a dry run prints them.

    `bounds` hold the floor: the oldest snapshot that must stay, who holds it, and how many files are protected.
    """

    table: str
    lake: str
    metadata_location: str
    snapshot: int | None
    engine: str
    settings: dict[str, Any]
    bounds: dict[str, Any] | None
    operations: tuple[PlannedOperation, ...]


def pass_plan_to_json(plan: PassPlan) -> dict[str, Any]:
    """The document; the same for every engine."""
    return {"version": 1, **asdict(plan)}
