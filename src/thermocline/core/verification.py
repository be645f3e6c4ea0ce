"""The ranges that `verify` compares and its report: one verdict for each range below the cut-line. Pure."""

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
"""The name of the range of spill rows at or above T: each must have a correction, which readers need once the cut-line
has passed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRange:
    """Keys lo <= k < hi on the axis. `in_heap`: the heap holds the range whole, or must in this mode, so the lake is
    compared with the heap.

    `proves_deletes`: the heap has held the range whole since its seal, so a row that it lacks was deleted. Elsewhere a
    row may be missing because a partition was dropped, detached or emptied.

    `is_doubted`: a partition of the heap has the range without proving deletes, and its capture was off for a time.
    Rows missing from it may have been deleted then, so the range does not agree while there are any.
    """

    name: str
    lo: int
    hi: int
    in_heap: bool
    proves_deletes: bool = False
    is_doubted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeVerdict:
    """The result of one range: `yardstick` is what the lake was compared with."""

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
    """The verdicts on one table."""

    table: str
    cut_line: str
    snapshot: int | None
    ranges: tuple[RangeVerdict, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    manifests: tuple[EntryProblem, ...] = ()
    """Manifest entries that contradict their files."""

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
    """The manifests of one snapshot: how many files they name, and which entries are wrong."""

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
    """The ranges of the partitions and the gaps between them: every key below the cut-line is in exactly one."""
    planned: list[CheckedRange] = []
    at = AXIS_MIN
    for partition in sorted(partitions, key=lambda part: (part.lo, part.hi)):
        if partition.hi <= at:
            continue
        if partition.lo > at:
            planned.append(CheckedRange(name=_name_gap(planned), lo=at, hi=partition.lo, in_heap=mode.heap_is_complete))
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
        planned.append(CheckedRange(name=_name_gap(planned), lo=at, hi=t, in_heap=mode.heap_is_complete))
    return tuple(planned)


def _name_gap(planned: Sequence[CheckedRange]) -> str:
    return f"after {planned[-1].name}" if planned else "before every partition"


def plan_next_range(ranges: Sequence[CheckedRange], checked: Mapping[tuple[int, int], datetime]) -> CheckedRange | None:
    """The range that was compared longest ago. Ranges never compared come first, the lowest keys before others."""
    fresh = [part for part in ranges if (part.lo, part.hi) not in checked]
    if fresh:
        return fresh[0]
    return min(ranges, key=lambda part: checked[part.lo, part.hi], default=None)
