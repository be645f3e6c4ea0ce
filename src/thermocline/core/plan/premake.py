"""Which partitions to make ahead of the newest row.

Pure. The grid goes on as its newest partitions do: months stay months whatever their length, days stay days over
daylight-saving edges (in UTC or in the database's own time zone, whichever the bounds lie on), anything else keeps its
width.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, render_axis

MAX_RUN_UP = 100
_DAY = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_FORMATS = ("%Y_%m_%d", "%Y-%m-%d", "%Y%m%d", "%Y_%m", "%Y-%m", "%Y%m", "%Y")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What was seen of a table's partitions: named bounds in order, how many of the last ones lie above every row, and
    the highest key at or above the last bound, if there is one."""

    table: str
    key_type: KeyType
    bounds: tuple[tuple[str, int, int], ...]
    t: int
    ready: int
    highest_beyond: int | None = None
    width: int | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition to make."""

    name: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PremakePlan:
    """Partitions to make, in order, and what cannot be done."""

    make: tuple[NewPartition, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """One partition's width: calendar months or days in a zone, or a fixed width."""

    months: int = 0
    days: int = 0
    width: int = 0
    zone: ZoneInfo | None = None


def render_premake(plan: PremakePlan, key_type: KeyType) -> tuple[str, ...]:
    """The plan in sentences."""
    ends = [(new.name, render_axis(key_type, new.lo), render_axis(key_type, new.hi)) for new in plan.make]
    return (*(f"make partition {name} ({lo} to {hi})" for name, lo, hi in ends), *plan.notes)


def plan_premake(grid: Grid, count: int) -> PremakePlan:
    """Partitions so that `count` of them lie above the newest row; none for a table without rows, or whose last one has
    no end.

    Invariant: every new partition lies above T and above every partition there is, so it changes the reading of no row.
    """
    if not count or not grid.bounds or (grid.ready == len(grid.bounds) and grid.highest_beyond is None):
        return PremakePlan()
    top = grid.bounds[-1][2]
    if top == AXIS_MAX or top < grid.t:
        return PremakePlan()
    if (step := _read_step(grid)) is None:
        return PremakePlan(
            notes=("partitions cannot be made ahead: no partition has two bounds to derive the width from",)
        )
    made: list[NewPartition] = []
    wanted = count - grid.ready
    if grid.highest_beyond is not None:
        made = _run_up(grid, step, top, grid.highest_beyond)
        if not made or made[-1].hi <= grid.highest_beyond:
            bound = render_axis(grid.key_type, top)
            note = (
                f"rows at or above {bound}, the last bound, lie more than {MAX_RUN_UP} partitions ahead of it and "
                "stay in the spill"
            )
            return PremakePlan(make=_grow(grid, step, [], wanted), notes=(note,))
        wanted = count
    return PremakePlan(make=_grow(grid, step, made, wanted))


def _run_up(grid: Grid, step: _Step, top: int, highest: int) -> list[NewPartition]:
    made: list[NewPartition] = []
    cursor = top
    while cursor <= highest and len(made) < MAX_RUN_UP and (end := _next(grid.key_type, step, cursor)) is not None:
        made.append(NewPartition(name=_name(grid, cursor, step), lo=cursor, hi=end))
        cursor = end
    return made


def _grow(grid: Grid, step: _Step, made: list[NewPartition], wanted: int) -> tuple[NewPartition, ...]:
    grown = list(made)
    cursor = grown[-1].hi if grown else grid.bounds[-1][2]
    for _ in range(wanted):
        if (end := _next(grid.key_type, step, cursor)) is None:
            break
        grown.append(NewPartition(name=_name(grid, cursor, step), lo=cursor, hi=end))
        cursor = end
    return tuple(grown)


def _read_step(grid: Grid) -> _Step | None:
    if grid.width is not None:
        return _Step(width=grid.width)
    closed = [(lo, hi) for _, lo, hi in grid.bounds if lo != AXIS_MIN and hi != AXIS_MAX]
    if not closed:
        return None
    lo, hi = closed[-1]
    if not grid.key_type.is_integer:
        for zone in _zones(grid):
            months = {_months(grid.key_type, low, high, zone) for low, high in closed[-3:]}
            if len(months) == 1 and (found := months.pop()):
                return _Step(months=found, zone=zone)
            if (days := _days(grid.key_type, lo, hi, zone)) is not None:
                return _Step(days=days, zone=zone)
    return _Step(width=hi - lo)


def _zones(grid: Grid) -> list[ZoneInfo]:
    names = ["UTC", grid.zone] if grid.key_type is KeyType.TIMESTAMPTZ else ["UTC"]
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError):
            continue
    return found


def _months(key_type: KeyType, lo: int, hi: int, zone: ZoneInfo) -> int | None:
    first, last = _local(key_type, lo, zone), _local(key_type, hi, zone)
    if first is None or last is None or any(at.day != 1 or at.time() != dt.time() for at in (first, last)):
        return None
    return (last.year - first.year) * 12 + last.month - first.month


def _days(key_type: KeyType, lo: int, hi: int, zone: ZoneInfo) -> int | None:
    first, last = _local(key_type, lo, zone), _local(key_type, hi, zone)
    if first is None or last is None or any(at.time() != dt.time() for at in (first, last)):
        return None
    return (last - first).days or None


def _local(key_type: KeyType, value: int, zone: ZoneInfo) -> dt.datetime | None:
    """The wall clock at a place on the axis; None outside the years a calendar here knows."""
    try:
        at = _EPOCH + (dt.timedelta(days=value) if key_type is KeyType.DATE else dt.timedelta(microseconds=value))
        return at.replace(tzinfo=dt.UTC).astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return None


def _place(key_type: KeyType, local: dt.datetime, zone: ZoneInfo) -> int:
    since = local.replace(tzinfo=zone).astimezone(dt.UTC).replace(tzinfo=None) - _EPOCH
    return since.days if key_type is KeyType.DATE else since // dt.timedelta(microseconds=1)


def _next(key_type: KeyType, step: _Step, lo: int) -> int | None:
    """The end of a partition that begins at `lo`; None where the axis or the key's type ends."""
    if step.zone is None:
        end = lo + step.width
        return end if end <= key_type.highest else None
    local = _local(key_type, lo, step.zone)
    if local is None:
        return None
    try:
        if step.days:
            return _place(key_type, local + dt.timedelta(days=step.days), step.zone)
        month = local.year * 12 + local.month - 1 + step.months
        return _place(key_type, local.replace(year=month // 12, month=month % 12 + 1), step.zone)
    except (OverflowError, ValueError):
        return None


def _name(grid: Grid, lo: int, step: _Step) -> str:
    """A name in the manner of the newest partition's, when that contains its lower bound; else the table's with the
    bound."""
    newest, newest_lo, _ = grid.bounds[-1]
    if grid.key_type.is_integer:
        if newest_lo >= 0 and re.search(rf"(?<!\d){newest_lo}$", newest):
            return f"{newest.removesuffix(str(newest_lo))}{lo}"
        return f"{grid.table}_p{'m' if lo < 0 else ''}{abs(lo)}"
    zone = step.zone or ZoneInfo("UTC")
    at, was = _local(grid.key_type, lo, zone), _local(grid.key_type, newest_lo, zone) if newest_lo != AXIS_MIN else None
    if at is None:
        return f"{grid.table}_p{'m' if lo < 0 else ''}{abs(lo)}"
    for form in _FORMATS if was is not None else ():
        assert was is not None
        if (
            newest.endswith(suffix := was.strftime(form))
            and ("d" in form or step.months)
            and ("m" in form or step.months % 12 == 0)
        ):
            return newest.removesuffix(suffix) + at.strftime(form)
    return f"{grid.table}_p{at:%Y%m%d}" + (f"_{at:%H%M%S}" if at.time() != dt.time() else "")
