"""How far T and R go by themselves, and where they wait for the operator's word.

Pure. Rows decide how far T goes, and one wrong row must not: keys that lie far beyond all others are not believed until
the operator says so, for they may be a mistake, and what T passes is history. R deletes, so it takes no longer stride
than usual either. A backlog is no jump: its partitions have rows, one after the other. With temporal keys the clock
bounds both, too (`now` in the plans).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, render_axis
from thermocline.core.observation import PartitionObservation

USUAL_PARTITIONS = 3
"""So many partitions may be empty in a row, or expire at once, without a word; of temporal keys at least a month of
them."""
_USUAL_DAYS = 31
_DAY = 86_400_000_000
_NEARLY_EMPTY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A stride longer than usual: from where the line would leave, to where it would go."""

    start: int
    to: int


def plan_cutline_jump(
    key_type: KeyType,
    partitions: Sequence[PartitionObservation],
    t: int,
    *,
    is_first: bool,
    beyond: int | None,
    accepted: int | None,
) -> Jump | None:
    """The first hole above T, longer than usual, that has rows on its far side and was not accepted.

    `beyond` is the lowest key at or above the last bound. Before anything was tiered, rows begin where they begin, and
    holes in a history of temporal keys are part of it: the clock bounds where it ends. With integer keys a partition a
    hundred times smaller than one below it does not fill a hole: a few stray keys are no backlog.
    """
    if is_first and not key_type.is_integer:
        return None
    near = None if is_first else t
    usual = usual_stride(key_type, [(p.lo, p.hi) for p in partitions])
    biggest = 0
    believed = AXIS_MIN if accepted is None else accepted
    for partition in partitions:
        if partition.hi <= t or partition.is_empty:
            continue
        if near is not None and partition.lo > believed and partition.lo - near > usual:
            return Jump(start=near, to=partition.lo)
        if (
            not key_type.is_integer
            or partition.size_bytes * _NEARLY_EMPTY >= biggest
            or near is None
            or partition.lo <= believed
        ):
            near, biggest = partition.hi, max(biggest, partition.size_bytes)
    if near is not None and beyond is not None and beyond > believed and beyond - near > usual:
        return Jump(start=near, to=beyond)
    return None


def plan_retention_jump(
    key_type: KeyType, bounds: Sequence[tuple[int, int]], current: int | None, line: int, accepted: int | None
) -> Jump | None:
    """The stride of the retention line, when it is longer than usual and was not accepted. The first one expires a
    backlog."""
    if (
        current is None
        or (accepted is not None and line <= accepted)
        or line - current <= usual_stride(key_type, bounds)
    ):
        return None
    return Jump(start=current, to=line)


def usual_stride(key_type: KeyType, bounds: Sequence[tuple[int, int]]) -> int:
    """How far a line goes at once without a word, for the widths of the table's partitions."""
    widths = [hi - lo for lo, hi in bounds if lo != AXIS_MIN and hi != AXIS_MAX]
    usual = USUAL_PARTITIONS * median_low(widths) if widths else 0
    if key_type.is_integer:
        return usual
    return max(usual, _USUAL_DAYS * (1 if key_type is KeyType.DATE else _DAY))


def render_cutline_jump(key_type: KeyType, table: str, jump: Jump) -> str:
    """Why the cut-line waits, and what to type."""
    start, to = render_axis(key_type, jump.start), render_axis(key_type, jump.to)
    return (
        f"the cut-line waits: rows at or above {to} lie far ahead of the others, which end before {start}; if "
        "they belong there,"
        f" `{render_accept_command(key_type, table, jump)}`"
    )


def render_retention_jump(key_type: KeyType, table: str, jump: Jump) -> str:
    """Why the retention line waits, and what to type."""
    start, to = render_axis(key_type, jump.start), render_axis(key_type, jump.to)
    return (
        f"the retention line waits: it would go from {start} to {to} at once, and rows below it are deleted "
        "for good; if they may go,"
        f" `{render_accept_command(key_type, table, jump)}`"
    )


def render_accept_command(key_type: KeyType, table: str, jump: Jump) -> str:
    """The command that lets a line go on."""
    to = render_axis(key_type, jump.to)
    return f"thermocline tier {table} --accept-jump {to if ' ' not in to else repr(to)}"
