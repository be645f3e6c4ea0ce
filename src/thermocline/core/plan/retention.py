"""Where the retention line R may stand, and which lake files lie wholly below it.

Pure. R is a bound of a partition at most T minus the retention; never above a partition the heap still has; and never inside a lake file,
so that whole files go and no row above R goes with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, render_axis


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """A lake file and the lowest and highest key it may hold."""

    path: str
    lower: int
    upper: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """The line to publish, the files that go, and why the line is not higher when something holds it back."""

    line: int
    remove: tuple[str, ...]
    notes: tuple[str, ...] = ()


def plan_retention(
    key_type: KeyType, t: int, retention: int, bounds: Sequence[int], lowest_held: int, files: Sequence[FileRange], current: int
) -> RetentionPlan | None:
    """Raise the line as far as it goes; None when it stands there already.

    Invariant: every removed file's highest key lies below the line, and no other file holds a key below it.
    """
    limit = min(t - retention, lowest_held, t)
    candidates = sorted({bound for bound in bounds if max(current, AXIS_MIN) < bound <= limit and bound != AXIS_MAX}, reverse=True)
    notes: list[str] = []
    for line in candidates:
        across = next((file for file in files if file.lower < line <= file.upper), None)
        if across is None:
            return RetentionPlan(line=line, remove=tuple(file.path for file in files if file.upper < line), notes=tuple(notes))
        if not notes:
            notes.append(f"the retention line stays below {render_axis(key_type, line)}: a lake file reaches across it")
    return RetentionPlan(line=current, remove=(), notes=tuple(notes)) if notes else None
