"""The axis: tier keys of every type as signed 64-bit integers in the same order.

Integers map to themselves, dates to days since 1970-01-01, timestamps to microseconds since the epoch in UTC.
The lowest and the highest value stand for MINVALUE (also -infinity) and MAXVALUE.
"""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum

from thermocline.core.types import COLUMN_TYPES_BY_NAME, MICROSECONDS_PER_DAY, ColumnType, column_types
from thermocline.core.types.intervals import parse_interval, render_interval
from thermocline.errors import BadDuration

AXIS_MIN = -(2**63)
AXIS_MAX = 2**63 - 1

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()


class KeyType(StrEnum):
    """The types a tier key may have, by their names in Postgres: the column types that declare an axis."""

    SMALLINT = column_types.INT2.name
    INTEGER = column_types.INT4.name
    BIGINT = column_types.INT8.name
    DATE = column_types.DATE.name
    TIMESTAMP = column_types.TIMESTAMP.name
    TIMESTAMPTZ = column_types.TIMESTAMPTZ.name

    @property
    def column_type(self) -> ColumnType:
        return COLUMN_TYPES_BY_NAME[self.value]

    @property
    def is_integer(self) -> bool:
        return self.column_type.is_integer

    @property
    def units_per_day(self) -> int:
        """What a day is on the axis of a key that is a time."""
        return 1 if self is KeyType.DATE else MICROSECONDS_PER_DAY

    @property
    def highest(self) -> int:
        """The highest end that a partition of this key may have on the axis."""
        return min((1 << self.column_type.value_bits) - 1 if self.is_integer else AXIS_MAX, AXIS_MAX - 1)


def parse_duration(kind: KeyType, text: str, *, is_step: bool = False) -> int:
    """A duration in units of the key's axis: a number for integer keys, else what Postgres reads as an interval.

    A duration on the axis has one length. A month or a year is taken for the longest there is, so that nothing moves or
    is deleted earlier than by the calendar. A step of a grid (`is_step`) would drift from the calendar and takes
    neither.
    """
    number = re.fullmatch(r"\s*([0-9]{1,18})\s*", text, re.ASCII)
    if number and (kind.is_integer or int(number[1]) == 0):
        return int(number[1])
    if number:
        raise BadDuration(
            f"{text!r} has no unit, and the tier key is {kind.value}.", hint="Add one: '7 days', '12 hours', 7d, 12h."
        )
    interval = parse_interval(text)
    if interval is None:
        raise BadDuration(f"{text!r} is not a duration.")
    if kind.is_integer:
        raise BadDuration(
            f"{text!r} has a time unit, but the tier key is {kind.value}.", hint="Use a plain number for integer keys."
        )
    if is_step and interval.months:
        raise BadDuration(
            f"{text!r} has months, and a month has no fixed width.",
            hint="Leave the width out: the calendar months or years of the newest partitions go on by themselves.",
        )
    span = interval.longest_microseconds
    if span > AXIS_MAX:
        raise BadDuration(f"{text!r} is longer than the axis.", hint="Nothing is that old; use a shorter duration.")
    if kind is not KeyType.DATE:
        return span
    if span % MICROSECONDS_PER_DAY:
        raise BadDuration(
            f"{text!r} is finer than the tier key, which is a date.", hint="Use whole days or weeks: '7 days', 2w."
        )
    return span // MICROSECONDS_PER_DAY


def render_duration(kind: KeyType, units: int) -> str:
    """A duration on the key's axis as it may be given: a number, or an interval as Postgres writes it."""
    if kind.is_integer:
        return str(units)
    return render_interval(units * (MICROSECONDS_PER_DAY if kind is KeyType.DATE else 1))


def render_axis(kind: KeyType, value: int) -> str:
    """The value in Postgres' input form (UTC, ISO); the ends of the axis as infinity or the integer itself."""
    if kind.is_integer:
        return str(value)
    if value == AXIS_MIN:
        return "-infinity"
    if value == AXIS_MAX:
        return "infinity"
    day, micros = (value, 0) if kind is KeyType.DATE else divmod(value, MICROSECONDS_PER_DAY)
    text = _render_day(day)
    if kind is KeyType.DATE:
        return _append_era(text)
    seconds, fraction = divmod(micros, 1_000_000)
    clock = f" {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    clock += f".{fraction:06d}".rstrip("0") if fraction else ""
    return _append_era(text, clock + ("+00" if kind is KeyType.TIMESTAMPTZ else ""))


def _render_day(day: int) -> tuple[int, str]:
    """Proleptic Gregorian year and the `-MM-DD` of a day number, for years Python's date cannot hold too."""
    cycles, rest = divmod(day + _EPOCH_DAY - 1, 146_097)
    found = dt.date.fromordinal(rest + 1)
    return found.year + 400 * cycles, f"-{found.month:02d}-{found.day:02d}"


def _append_era(parts: tuple[int, str], tail: str = "") -> str:
    year, rest = parts
    return f"{year:04d}{rest}{tail}" if year > 0 else f"{1 - year:04d}{rest}{tail} BC"
