"""How far T and R advance without confirmation, and when they wait for `tier --accept-jump`.

Pure. The highest rows decide how far T advances, and one row with a wrong key must not: keys far beyond all others are
ignored until the operator accepts them. R deletes rows, so its advance is limited in the same way. A backlog is not a
jump: its partitions have rows, one after the other. With temporal keys the clock limits both too (`now` in the plans).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, render_axis
from thermocline.core.observation import PartitionObservation

MAX_PARTITIONS = 3
"""As many partitions may be empty in a row, or expire at once, without confirmation; with temporal keys at least a
month of them."""
_MAX_DAYS = 31
_NEARLY_EMPTY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """An advance of T or R that needs confirmation, from `start` to `to`."""

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
    """The first gap above T that is wider than the limit, has rows above it and was not accepted.

    `beyond` is the lowest key at or above the last bound. Before anything was tiered, the first row may lie anywhere,
    and gaps in a history of temporal keys are accepted: the clock limits where it ends. With integer keys a partition a
    hundred times smaller than one below it does not close a gap: a few stray keys are not a backlog.
    """
    if is_first and not key_type.is_integer:
        return None
    near = None if is_first else t
    limit = max_advance(key_type, [(p.lo, p.hi) for p in partitions])
    biggest = 0
    accepted_to = AXIS_MIN if accepted is None else accepted
    for partition in partitions:
        if partition.hi <= t or partition.is_empty:
            continue
        if near is not None and partition.lo > accepted_to and partition.lo - near > limit:
            return Jump(start=near, to=partition.lo)
        if (
            not key_type.is_integer
            or partition.size_bytes * _NEARLY_EMPTY >= biggest
            or near is None
            or partition.lo <= accepted_to
        ):
            near, biggest = partition.hi, max(biggest, partition.size_bytes)
    if near is not None and beyond is not None and beyond > accepted_to and beyond - near > limit:
        return Jump(start=near, to=beyond)
    return None


def plan_retention_jump(
    key_type: KeyType, bounds: Sequence[tuple[int, int]], current: int | None, line: int, accepted: int | None
) -> Jump | None:
    """The advance of the retention line, when it exceeds the limit and was not accepted. The first advance expires a
    backlog and is not limited."""
    if (
        current is None
        or (accepted is not None and line <= accepted)
        or line - current <= max_advance(key_type, bounds)
    ):
        return None
    return Jump(start=current, to=line)


def max_advance(key_type: KeyType, bounds: Sequence[tuple[int, int]]) -> int:
    """How far T or R advances at once without confirmation, derived from the widths of the table's partitions."""
    widths = [hi - lo for lo, hi in bounds if lo != AXIS_MIN and hi != AXIS_MAX]
    limit = MAX_PARTITIONS * median_low(widths) if widths else 0
    if key_type.is_integer:
        return limit
    return max(limit, _MAX_DAYS * key_type.units_per_day)


def render_cutline_jump(key_type: KeyType, table: str, jump: Jump) -> str:
    """Why the cut-line waits, and the command that accepts the jump."""
    start, to = render_axis(key_type, jump.start), render_axis(key_type, jump.to)
    return (
        f"the cut-line waits: rows at or above {to} lie far ahead of the others, which end before {start}; if "
        "they belong there,"
        f" `{render_accept_command(key_type, table, jump)}`"
    )


def render_retention_jump(key_type: KeyType, table: str, jump: Jump) -> str:
    """Why the retention line waits, and the command that accepts the jump."""
    start, to = render_axis(key_type, jump.start), render_axis(key_type, jump.to)
    return (
        f"the retention line waits: it would go from {start} to {to} at once, and rows below it are deleted "
        "for good; if they may go,"
        f" `{render_accept_command(key_type, table, jump)}`"
    )


def render_accept_command(key_type: KeyType, table: str, jump: Jump) -> str:
    """The command that accepts a jump."""
    to = render_axis(key_type, jump.to)
    return f"thermocline tier {table} --accept-jump {to if ' ' not in to else repr(to)}"
