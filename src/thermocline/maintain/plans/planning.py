"""A plan together with what was read to make it, so that applying it does not read the same again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.outcome import Operation
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors import ThermoclineError
from thermocline.lake.commit.compare_and_swap import LakeHead
from thermocline.lake.files.deletion_check import NeededFiles
from thermocline.lake.read.reachable import ManifestIndex
from thermocline.lake.read.table_files import TableFiles
from thermocline.maintain.context import PassContext


@dataclass(slots=True)
class ExpiryReads:
    """Manifests that an expiry has read: the files of those that stay, as a set, and of those that go, by manifest.
    Each manifest is read once per pass."""

    needed: NeededFiles
    index: ManifestIndex
    kept: set[str] = field(default_factory=set)
    files: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The version a plan was made on, and caches of immutable files."""

    head: LakeHead | None = None
    files: TableFiles | None = None
    expiry: ExpiryReads | None = None
    needed: NeededFiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and what was observed for it."""

    plan: MaintenancePlan
    observed: Observed = field(default_factory=Observed)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A request to plan an operation. Context managers entered into `held`, such as partition locks, are held until the
    operation ends; `before` is what an earlier plan of the same operation observed."""

    operation: Operation
    context: PassContext
    held: ExitStack
    before: Observed = field(default_factory=Observed)


Planner = Callable[[PlanRequest], Planned]
"""Observes the table and plans one operation."""


def idle_plan(operation: Operation, head: LakeHead, bounds: Bounds, reason: str) -> MaintenancePlan:
    """A plan that changes nothing."""
    return MaintenancePlan(
        operation=operation,
        metadata_location=head.metadata_location,
        snapshot=head.snapshot_id,
        bounds=bounds,
        change=None,
        idle=reason,
    )


def refused_plan(operation: Operation, head: LakeHead, bounds: Bounds, refusal: ThermoclineError) -> MaintenancePlan:
    """A plan that could not be made, with the reason and its hint."""
    return MaintenancePlan(
        operation=operation,
        metadata_location=head.metadata_location,
        snapshot=head.snapshot_id,
        bounds=bounds,
        change=None,
        refused=str(refusal),
        notes=(refusal.hint,) if refusal.hint else (),
    )
