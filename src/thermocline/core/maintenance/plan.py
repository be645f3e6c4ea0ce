"""A pass as data: what it is to do, by which settings, within which bounds. Printed by a dry run, handed to an
engine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from thermocline.core.maintenance.outcome import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperation:
    """One operation in its turn. `steps` say what it would do, or why it would do nothing."""

    operation: Operation
    will_run: bool
    sentence: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """`bounds` hold the floor: the oldest snapshot that must stay, who holds it, and how many files are protected."""

    table: str
    lake: str
    metadata_location: str
    snapshot: int | None
    engine: str
    settings: dict[str, Any]
    bounds: dict[str, Any] | None
    operations: tuple[PlannedOperation, ...]


def plan_to_json(plan: MaintenancePlan) -> dict[str, Any]:
    """The document; the same for every engine."""
    return {"version": 1, **asdict(plan)}
