"""Which partitions move to the lake now, and which may leave the heap.

Pure: an observation in, a plan out. `ops/tier/observe_table.py` makes the observation, `ops/tier/tiering.py` performs
the plan, and `--dry-run` prints the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import takewhile

from thermocline.core.axis import AXIS_MAX, KeyType, render_axis
from thermocline.core.observation import PartitionObservation, TableObservation

_NAMED = 3
"""As many partitions are named in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierPlan:
    """Partitions to capture late, to move in one commit, and to drop. `notes` say why partitions are left out."""

    capture: tuple[PartitionObservation, ...]
    move: tuple[PartitionObservation, ...]
    new_t: int
    drop: tuple[PartitionObservation, ...]
    notes: tuple[str, ...]
    drop_after_move: tuple[PartitionObservation, ...] = ()
    """Of the partitions that move or are captured, those that are dropped in the same cycle."""

    @property
    def is_empty(self) -> bool:
        return not (self.capture or self.move or self.drop)


def plan_tiering(seen: TableObservation) -> TierPlan:
    """Every partition from T upwards that is behind the lag, oldest first and without a break; then what may be
    dropped.

    Invariant: T moves only to the upper bound of a partition in `move`, and every existing partition below that bound
    is in `move` or lies below T already; so after the move the heap arm (at or above T) and the lake arm (below T)
    split the rows exactly. T never outruns the clock, whatever rows say.
    """
    notes: list[str] = []
    straddling = [p for p in seen.partitions if p.lo < seen.cut.t < p.hi]
    if straddling:
        notes.append(
            f"partition {straddling[0].name} straddles the cut-line, so nothing moves; split it at the cut-line"
        )
    move, new_t = ((), seen.cut.t) if straddling else _due(seen, notes)
    capture = tuple(p for p in seen.partitions if p.lo < seen.cut.t and p.state == "hot")
    return TierPlan(
        capture=capture,
        move=move,
        new_t=new_t,
        drop=tuple(p for p in seen.partitions if _is_droppable(seen, p)),
        notes=tuple(notes),
        drop_after_move=(*capture, *move) if move and seen.mode.drops_partitions and seen.reclaim_lag == 0 else (),
    )


def limit_move(plan: TierPlan, bound: int) -> TierPlan:
    """The plan with the partitions that begin below a bound, at least one."""
    move = tuple(takewhile(lambda partition: partition.lo < bound, plan.move)) or plan.move[:1]
    left = set(plan.move) - set(move)
    later = tuple(partition for partition in plan.drop_after_move if partition not in left)
    return replace(plan, move=move, new_t=move[-1].hi, drop_after_move=later) if move else plan


def limit_to_adopted(lake_until: int | None, plan: TierPlan, t: int) -> TierPlan:
    """The plan below `lake_until`, up to which an adopted lake may hold rows: one commit adopts, or moves what the lake
    cannot know; never both."""
    if lake_until is None or t >= lake_until or not plan.move:
        return plan
    return limit_move(plan, lake_until)


def hold_back(plan: TierPlan, t: int) -> TierPlan:
    """The plan without moves and drops, of a table that is not started; late partitions are captured all the same."""
    return replace(plan, move=(), new_t=t, drop=(), drop_after_move=())


def render_waiting(table: str, plan: TierPlan) -> tuple[str, ...]:
    """What of a plan waits because the table is not started."""
    due = [str(partition.name) for partition in (*plan.move, *plan.drop)]
    if not due:
        return ()
    more = f" and {len(due) - _NAMED} more" if len(due) > _NAMED else ""
    names = ", ".join(due[:_NAMED])
    return (f"due are {names}{more}, and nothing moves by itself before `thermocline start {table}`",)


def _is_droppable(seen: TableObservation, partition: PartitionObservation) -> bool:
    if not seen.is_past(partition.hi):
        return False
    is_below = partition.state == "tiered" and partition.hi <= seen.cut.t
    return is_below and seen.mode.drops_partitions and partition.is_reclaimable


def _is_due(seen: TableObservation, partition: PartitionObservation) -> bool:
    return partition.is_behind_tiering and partition.hi != AXIS_MAX and seen.is_past(partition.hi + seen.tiering_lag)


def _due(seen: TableObservation, notes: list[str]) -> tuple[tuple[PartitionObservation, ...], int]:
    due: list[PartitionObservation] = []
    cursor = seen.cut.t
    for partition in seen.partitions:
        if partition.hi <= seen.cut.t:
            continue
        if not _is_due(seen, partition):
            break
        if not partition.is_permanent:
            notes.append(render_unlogged(partition))
            break
        if partition.lo > cursor:
            notes.append(render_gap(seen.key_type, cursor, partition.lo))
        due.append(partition)
        cursor = partition.hi
    return tuple(due), cursor


def render_next(seen: TableObservation) -> str:
    """What has to happen before another partition moves."""
    for partition in seen.partitions:
        if partition.hi <= seen.cut.t:
            continue
        if partition.hi == AXIS_MAX:
            return f"{partition.name} has no upper bound and never moves"
        at = render_axis(seen.key_type, min(partition.hi + seen.tiering_lag, AXIS_MAX))
        if not partition.is_behind_tiering:
            return f"{partition.name} moves once a row at or above {at} is there"
        if not seen.is_past(partition.hi + seen.tiering_lag):
            return f"{partition.name} moves once the clock has passed {at}"
        return f"{partition.name} is due" if partition.is_permanent else render_unlogged(partition)
    return "no partition lies above the cut-line"


def render_left_in_heap(seen: TableObservation) -> tuple[str, ...]:
    """The moved partitions that the heap still has, of a table that is not started."""
    left = sum(partition.state == "tiered" for partition in seen.partitions)
    if not left:
        return ()
    many = f"{left} moved partition{'s stay' if left > 1 else ' stays'}"
    return (
        f"{many} in the heap until the next `thermocline tier {seen.table}` after the reclaim lag, or until "
        f"`thermocline start {seen.table}`",
    )


def render_unlogged(partition: PartitionObservation) -> str:
    """The sentence for a partition that a crash would empty, after which its lost rows look like deleted ones."""
    return (
        f"partition {partition.name} is unlogged, so it does not move and a crash loses its rows; ALTER TABLE … "
        "SET LOGGED first"
    )


def render_gap(key_type: KeyType, lo: int, hi: int) -> str:
    """The sentence for a range that no partition covers."""
    ends = f"{render_axis(key_type, lo)} to {render_axis(key_type, hi)}"
    return f"no partition covers {ends}; rows written there wait in the spill and read as corrections"


def render_plan(seen: TableObservation, plan: TierPlan) -> tuple[str, ...]:
    """The plan in sentences, for people and for `--dry-run`."""
    lines = [f"capture {p.name}: it was made below the cut-line" for p in plan.capture]
    dropped = ", then drop it from the heap, when no older reader lives"
    lines += [
        f"move {p.name} ({_range(seen, p)}, {p.size_bytes:,} bytes)" + (dropped if p in plan.drop_after_move else "")
        for p in plan.move
    ]
    if plan.move:
        lines.append(
            f"raise the cut-line from {render_axis(seen.key_type, seen.cut.t)} to "
            f"{render_axis(seen.key_type, plan.new_t)}"
        )
    lines += [f"drop {p.name} ({_range(seen, p)}) from the heap, when no older reader lives" for p in plan.drop]
    return (*lines, *plan.notes, *seen.waits) or ("nothing to do",)


def _range(seen: TableObservation, partition: PartitionObservation) -> str:
    return f"{render_axis(seen.key_type, partition.lo)} to {render_axis(seen.key_type, partition.hi)}"
