"""Which corrections one commit folds, split into ranges, and which data files each range must search.

Pure: edges and file bounds in, ranges out. `ops/fold.py` reads the input and runs the plan; `--dry-run` prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.core.axis import KeyType, render_axis
from thermocline.core.lake_file import FileBounds
from thermocline.core.names import TableName

RANGE_ROWS = 100_000
MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The lowest key of a slice of the pending corrections, and how many corrections the slice holds."""

    key: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldRange:
    """About `rows` corrections with lo <= tier key < hi. Where too many share one tier key the range is split by
    version: `share` is one of `shares` parts."""

    lo: int
    hi: int
    rows: int
    share: int = 0
    shares: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPlan:
    """The ranges one commit folds; `pending` counts all corrections below the cut-line, `left` those it leaves to the
    next commit."""

    table: TableName
    pending: int
    ranges: tuple[FoldRange, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.ranges)

    @property
    def left(self) -> int:
        return max(0, self.pending - self.rows)


def plan_range_rows(pending: int, parallelism: int) -> int:
    """How many corrections one task takes: enough tasks for every core, none above the limit that bounds its memory."""
    return max(1, min(RANGE_ROWS, -(-pending // max(1, parallelism))))


def plan_folding(table: TableName, pending: int, edges: Sequence[Edge], t: int, max_rows: int = MAX_ROWS) -> FoldPlan:
    """Ranges from the lowest key upwards until the commit holds `max_rows` corrections.

    Invariant: the ranges neither overlap nor leave out a key between their ends, so every correction in them is folded
    exactly once; and a key's old image lies in a file whose bounds hold the key, because the tier key is part of every
    primary key. A range that is too large, because many corrections share a tier key, is split by version, so that
    the memory of a task is bounded.
    """
    rows: dict[int, int] = {}
    for edge in edges:
        rows[edge.key] = rows.get(edge.key, 0) + edge.rows
    starts = sorted(rows)
    ranges: list[FoldRange] = []
    taken = 0
    for lo, hi in zip(starts, [*starts, t][1:], strict=True):
        for part in _split_by_version(FoldRange(lo=lo, hi=hi, rows=rows[lo])):
            if ranges and taken + part.rows > max_rows:
                return FoldPlan(table=table, pending=pending, ranges=tuple(ranges))
            ranges.append(part)
            taken += part.rows
    return FoldPlan(table=table, pending=pending, ranges=tuple(ranges))


def _split_by_version(part: FoldRange) -> tuple[FoldRange, ...]:
    shares = -(-part.rows // (2 * RANGE_ROWS))
    if shares <= 1:
        return (part,)
    sizes = [part.rows * (number + 1) // shares - part.rows * number // shares for number in range(shares)]
    return tuple(
        FoldRange(lo=part.lo, hi=part.hi, rows=size, share=number, shares=shares) for number, size in enumerate(sizes)
    )


def find_files_in_range(part: FoldRange, files: Sequence[FileBounds]) -> tuple[FileBounds, ...]:
    """The files that may hold an old image of the range."""
    return tuple(file for file in files if file.lower < part.hi and file.upper >= part.lo)


def render_fold_plan(plan: FoldPlan, key_type: KeyType) -> tuple[str, ...]:
    """The plan in sentences, as `--dry-run` prints it."""
    if not plan.ranges:
        return ("nothing to fold",)
    ends = f"{render_axis(key_type, plan.ranges[0].lo)} to {render_axis(key_type, plan.ranges[-1].hi)}"
    lines = [f"fold {plan.rows:,} corrections ({ends}) in {len(plan.ranges)} task{'s' * (len(plan.ranges) > 1)}"]
    if plan.left:
        lines.append(f"leave {plan.left:,} corrections to the next commit")
    return tuple(lines)
