"""Where the retention line R may be raised to, and which lake files and rows lie below it.

Pure. R is a partition bound that is at most T, or the clock, minus the retention; it is never above a partition the
heap still has, nor above the lowest key of a staged load. Files wholly below R are removed; of files that straddle R
the rows below it are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.core.axis import AXIS_MAX, AXIS_MIN
from thermocline.core.lake_file import FileBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The line to publish, the files to remove, and the files that straddle the line."""

    line: int
    remove: tuple[str, ...]
    straddling: tuple[str, ...] = ()


def plan_retention_line(
    t: int,
    retention: int,
    bounds: Sequence[int],
    lowest_held: int,
    current: int,
    lowest_staged: int = AXIS_MAX,
    now: int | None = None,
) -> int | None:
    """The highest bound the line may be raised to; None when it is there already. No row younger than the retention
    expires."""
    limit = min(min(t, t if now is None else now) - retention, lowest_held, lowest_staged, t)
    return max(
        (bound for bound in bounds if max(current, AXIS_MIN) < bound <= limit and bound != AXIS_MAX), default=None
    )


def plan_retention(line: int, files: Sequence[FileBounds]) -> RetentionPlan:
    """What to remove for a retention line.

    Invariant: every removed file's highest key lies below the line, and every file that may hold a key below it is
    removed or straddles it.
    """
    return RetentionPlan(
        line=line,
        remove=tuple(file.path for file in files if file.upper < line),
        straddling=tuple(file.path for file in files if file.lower < line <= file.upper),
    )
