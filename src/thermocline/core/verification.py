"""What `verify` compares and what it says: ranges below the cut-line, a verdict for each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from thermocline.core.axis import AXIS_MIN
from thermocline.core.manifest_entry import EntryProblem
from thermocline.core.modes.mode import Mode

MAX_KEYS = 10
SPILL_ABOVE_CUTLINE = "the spill above the cut-line"
"""The range of rows that no partition covers yet: each has a correction, which readers look for once the cut-line has
passed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRange:
    """Keys lo <= k < hi on the axis; `in_heap` when the heap holds the range whole, or the mode wants it to, and so is
    the yardstick.

    `proves_deletes`: the heap holds the range whole, unbroken since its seal, so that a row it lacks was deleted.
    Elsewhere it may lack rows because a partition was dropped, detached or emptied.

    `is_doubted`: a partition of the heap has the range without proving deletes, and its capture was off for a time.
    Rows that it lacks may have been deleted then, so the range does not agree while there are any.
    """

    name: str
    lo: int
    hi: int
    in_heap: bool
    proves_deletes: bool = False
    is_doubted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeVerdict:
    """One range: what was compared with what, how many rows, and how they differ."""

    range: str
    lower: str
    upper: str
    yardstick: Literal["heap", "seam"]
    rows: int
    checksum: str
    problem: str | None = None
    keys: tuple[str, ...] = ()
    drift_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """One table."""

    table: str
    cut_line: str
    snapshot: int | None
    ranges: tuple[RangeVerdict, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    manifests: tuple[EntryProblem, ...] = ()
    """What manifests say of files that the files do not bear out."""

    @property
    def is_exact(self) -> bool:
        return not self.problems and not self.manifests and all(verdict.problem is None for verdict in self.ranges)

    @property
    def sentence(self) -> str:
        rows = sum(verdict.rows for verdict in self.ranges)
        if self.is_exact:
            return (
                f"{self.table}: {rows:,} rows in {len(self.ranges)} ranges below {self.cut_line} agree, value by value."
            )
        failed = [f"{verdict.range}: {verdict.problem}" for verdict in self.ranges if verdict.problem]
        if self.manifests:
            failed.append(f"{len(self.manifests):,} entries of manifests are wrong, among them {self.manifests[0]}")
        return f"{self.table}: FAIL: {'; '.join([*self.problems, *failed])}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReport:
    """One snapshot's manifests: how many files they name, and what is wrong about them."""

    table: str
    snapshot: int | None
    files: int
    problems: tuple[EntryProblem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        return not self.problems

    @property
    def sentence(self) -> str:
        if self.is_exact:
            return f"{self.table}: the manifests of {self.files:,} files agree with them."
        return (
            f"{self.table}: FAIL: {len(self.problems):,} entries of manifests are wrong, among them {self.problems[0]}."
        )


def plan_ranges(partitions: Sequence[CheckedRange], t: int, mode: Mode) -> tuple[CheckedRange, ...]:
    """The partitions' ranges and whatever lies between them, so that every key below the cut-line is in exactly one."""
    planned: list[CheckedRange] = []
    at = AXIS_MIN
    for partition in sorted(partitions, key=lambda part: (part.lo, part.hi)):
        if partition.hi <= at:
            continue
        if partition.lo > at:
            planned.append(CheckedRange(name=_between(planned), lo=at, hi=partition.lo, in_heap=mode.heap_is_complete))
        whole = partition.lo >= at
        in_heap = mode.heap_is_complete or (partition.in_heap and whole)
        planned.append(
            CheckedRange(
                name=partition.name,
                lo=max(at, partition.lo),
                hi=partition.hi,
                in_heap=in_heap,
                proves_deletes=partition.proves_deletes and whole,
                is_doubted=partition.is_doubted,
            )
        )
        at = partition.hi
    if at < t:
        planned.append(CheckedRange(name=_between(planned), lo=at, hi=t, in_heap=mode.heap_is_complete))
    return tuple(planned)


def _between(planned: Sequence[CheckedRange]) -> str:
    return f"after {planned[-1].name}" if planned else "before every partition"


def plan_next_range(ranges: Sequence[CheckedRange], checked: Mapping[tuple[int, int], datetime]) -> CheckedRange | None:
    """The range that was compared longest ago; those never compared come first, the oldest rows before newer ones."""
    fresh = [part for part in ranges if (part.lo, part.hi) not in checked]
    if fresh:
        return fresh[0]
    return min(ranges, key=lambda part: checked[part.lo, part.hi], default=None)
