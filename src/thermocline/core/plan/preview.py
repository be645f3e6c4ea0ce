"""What a tiering cycle would take out of the heap, for `register`, `start`, `alter` and `tier --dry-run`.

Pure: the plan that the cycle performs, with the rows of its partitions counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from thermocline.core.axis import render_axis, render_duration
from thermocline.core.observation import PartitionObservation, TableObservation
from thermocline.core.plan.tier import TierPlan, render_next


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """The rows of a partition: counted, or as the planner estimates them."""

    rows: int
    is_estimate: bool = False

    def __str__(self) -> str:
        return f"{'~' * self.is_estimate}{self.rows:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedPartition:
    """A partition that moves to the lake, and when it leaves the heap."""

    name: str
    lower: str
    upper: str
    rows: int
    is_estimate: bool
    size_bytes: int
    leaves_heap: str

    @property
    def count(self) -> RowCount:
        return RowCount(rows=self.rows, is_estimate=self.is_estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPreview:
    """The partitions that the next cycle moves, those moved earlier that it drops, what keeps others back, and what
    has to happen before more move."""

    moves: tuple[PreviewedPartition, ...]
    drops: tuple[str, ...]
    rows: int
    is_estimate: bool
    held_back: tuple[str, ...]
    next_step: str

    @property
    def count(self) -> RowCount:
        return RowCount(rows=self.rows, is_estimate=self.is_estimate)


def plan_preview(seen: TableObservation, plan: TierPlan, counts: Mapping[int, RowCount]) -> TierPreview:
    """The preview of a plan; `counts` has the rows of each partition that moves, by its OID."""
    counted = [counts[partition.oid] for partition in plan.move]
    after = replace(seen, cut=replace(seen.cut, t=plan.new_t))
    return TierPreview(
        moves=tuple(_preview(seen, partition, counts[partition.oid]) for partition in plan.move),
        drops=tuple(str(partition.name) for partition in plan.drop),
        rows=sum(count.rows for count in counted),
        is_estimate=any(count.is_estimate for count in counted),
        held_back=(*plan.notes, *seen.waits),
        next_step=render_next(after),
    )


def _preview(seen: TableObservation, partition: PartitionObservation, count: RowCount) -> PreviewedPartition:
    return PreviewedPartition(
        name=str(partition.name),
        lower=render_axis(seen.key_type, partition.lo),
        upper=render_axis(seen.key_type, partition.hi),
        rows=count.rows,
        is_estimate=count.is_estimate,
        size_bytes=partition.size_bytes,
        leaves_heap=render_leaving(seen),
    )


def render_leaving(seen: TableObservation) -> str:
    """When a partition that moves leaves the heap."""
    if not seen.mode.drops_partitions:
        return "never"
    if seen.reclaim_lag == 0:
        return "in the same cycle"
    lag = render_duration(seen.key_type, seen.reclaim_lag)
    return f"once {lag} newer keys were written" if seen.key_type.is_integer else f"{lag} after the move"


def render_totals(preview: TierPreview) -> list[str]:
    """The preview in sentences, for what a table of partitions does not say."""
    many = len(preview.moves)
    moving = f"{many} partition{'s' * (many != 1)} with {preview.count} rows" if many else "no partition"
    lines = [f"{moving} would move to the lake"]
    if preview.drops:
        lines.append(f"{', '.join(preview.drops)} would leave the heap, moved earlier")
    return [*lines, *preview.held_back, f"later: {preview.next_step}"]
