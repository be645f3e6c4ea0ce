"""Which ranges of history are copied back into the heap, and into which partitions.

Pure. Every key below T is in exactly one range: a partition that the heap still has, whole or in part; a dropped
partition, created again under its name; or a gap between partitions, which holds only rows written there directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from thermocline.core.axis import AXIS_MIN
from thermocline.core.names import TableName

Presence = Literal["whole", "partial", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPartition:
    """A partition below T, and whether the heap has all of its rows, some of them or none."""

    name: TableName
    lo: int
    hi: int
    presence: Presence


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRange:
    """A range to fill from lake and delta: a new partition, or `into` one that the heap has in part. A gap is filled
    only when it has rows."""

    name: TableName
    lo: int
    hi: int
    into: TableName | None = None
    is_gap: bool = False


def plan_restore(heap: TableName, partitions: Sequence[HistoryPartition], t: int) -> tuple[RestoreRange, ...]:
    """The ranges to fill, in the order of their keys; partitions of the heap take precedence over dropped ones."""
    covered: list[tuple[int, int]] = []
    planned: list[RestoreRange] = []
    for partition in sorted(partitions, key=lambda p: (p.presence == "gone", p.lo, p.hi)):
        low, high = partition.lo, min(partition.hi, t)
        for lo, hi in _uncovered(covered, low, high):
            if partition.presence == "partial":
                planned.append(RestoreRange(name=partition.name, lo=lo, hi=hi, into=partition.name))
            elif partition.presence == "gone":
                planned.append(RestoreRange(name=partition.name, lo=lo, hi=hi))
        covered.append((low, high))
    schema = partitions[0].name.schema if partitions else heap.schema
    between = TableName(schema, f"{heap.table}_restored")
    planned += [RestoreRange(name=between, lo=lo, hi=hi, is_gap=True) for lo, hi in _uncovered(covered, AXIS_MIN, t)]
    return tuple(sorted(planned, key=lambda part: part.lo))


def _uncovered(covered: Sequence[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """The parts of a range that none of the others covers."""
    left, at = [], low
    for lo, hi in sorted(covered):
        if hi <= at or lo >= high:
            continue
        if lo > at:
            left.append((at, lo))
        at = max(at, hi)
    return [*left, (at, high)] if at < high else left
