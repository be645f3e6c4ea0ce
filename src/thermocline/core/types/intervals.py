"""Lengths of time as Postgres writes them: `30 days`, `1 mon`, `02:30:00`, `1 day 12:00:00`, `P30D`, and short `90m`.

Pure, and exact: nothing passes through a float. Postgres keeps months, days and microseconds apart, because a month has
no fixed length; so does `Interval`. What Postgres would read as negative is no length of time, and is refused; so are
a bare number, which Postgres takes for seconds, and parts of months, which Postgres takes for parts of 30 days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

SECOND_US, MINUTE_US, HOUR_US, DAY_US = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
LONGEST_MONTH_DAYS, LONGEST_YEAR_DAYS = 31, 366

# As Postgres' table of units has them; it compares the first ten letters.
_MICROSECONDS = {
    **dict.fromkeys(("us", "usec", "usecs", "microsecon"), 1),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecon"), 1_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND_US),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE_US),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR_US),
}
_DAYS = {**dict.fromkeys(("d", "day", "days"), 1), **dict.fromkeys(("w", "week", "weeks"), 7)}
_MONTHS = {
    **dict.fromkeys(("mon", "mons", "month", "months"), 1),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 12),
    **dict.fromkeys(("dec", "decs", "decade", "decades"), 120),
    **dict.fromkeys(("c", "cent", "century", "centuries"), 1200),
    **dict.fromkeys(("mil", "mils", "millennium", "millennia"), 12000),
}
_LETTERS = 10
_SECONDS = frozenset({"1 us", "1000 us", f"{SECOND_US} us"})
_CLOCK = _SECONDS | {f"{MINUTE_US} us", f"{HOUR_US} us"}
_DIGITS = 18
_PIECE = re.compile(
    r"\s*(?:(?P<hours>[0-9]+):(?P<minutes>[0-5]?[0-9])(?::(?P<seconds>[0-5]?[0-9](?:\.[0-9]{0,6})?))?(?![0-9:.])"
    r"|(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?P<unit>[a-z]+))\s*",
    re.IGNORECASE | re.ASCII,
)
_ISO = re.compile(
    r"P(?=[0-9T])(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]{0,6})?)S)?)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A length of time in Postgres' three units."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def __add__(self, other: Interval) -> Interval:
        return Interval(
            months=self.months + other.months,
            days=self.days + other.days,
            microseconds=self.microseconds + other.microseconds,
        )

    @property
    def longest_microseconds(self) -> int:
        """The longest that it may last: a day has 24 hours, a month up to 31 days, a year up to 366. Waiting that long
        is never shorter than the calendar's month or year."""
        years, months = divmod(self.months, 12)
        return (years * LONGEST_YEAR_DAYS + months * LONGEST_MONTH_DAYS + self.days) * DAY_US + self.microseconds


def parse_interval(text: str) -> Interval | None:
    """The interval that Postgres reads in the text; None where it is none, or negative, or depends on a setting."""
    given = text.strip(" \t\n\r\f\v").removeprefix("@")
    if any(len(digits) > _DIGITS for digits in re.findall(r"[0-9]+", given)):
        return None
    if found := _ISO.fullmatch(given):
        return _parse_iso(*found.groups())
    total, at, seen = Interval(), 0, set[str]()
    while at < len(given):
        piece = _PIECE.match(given, at)
        part = None if piece is None else _parse_piece(piece)
        if piece is None or part is None:
            return None
        units, length = part
        if units & seen:  # Postgres refuses `1 day 2 days`, and `1 hour 01:30`
            return None
        seen |= units
        total, at = total + length, piece.end()
    return total if seen else None


def render_interval(microseconds: int) -> str:
    """A length of time as Postgres writes it, in days of 24 hours and a clock: `30 days`, `1 day 02:30:00`."""
    days, rest = divmod(microseconds, DAY_US)
    clock = f"{rest // HOUR_US:02d}:{rest // MINUTE_US % 60:02d}:{rest // SECOND_US % 60:02d}"
    clock += f".{rest % SECOND_US:06d}".rstrip("0") if rest % SECOND_US else ""
    parts = [f"{days} day{'' if days == 1 else 's'}"] if days else []
    return " ".join([*parts, *([clock] if rest or not days else [])])


def _parse_iso(
    years: str | None,
    months: str | None,
    weeks: str | None,
    days: str | None,
    hours: str | None,
    minutes: str | None,
    seconds: str | None,
) -> Interval:
    clock = Fraction(seconds or 0) * SECOND_US + int(minutes or 0) * MINUTE_US + int(hours or 0) * HOUR_US
    return Interval(
        months=int(years or 0) * 12 + int(months or 0),
        days=int(weeks or 0) * 7 + int(days or 0),
        microseconds=int(clock),
    )


def _parse_piece(piece: re.Match[str]) -> tuple[frozenset[str], Interval] | None:
    """A number with its unit, or a clock; with the units that it fills, of which an interval has each once."""
    if piece["hours"] is not None:
        clock = Fraction(piece["seconds"] or 0) * SECOND_US
        return _CLOCK, Interval(
            microseconds=int(piece["hours"]) * HOUR_US + int(piece["minutes"]) * MINUTE_US + int(clock)
        )
    unit, number = piece["unit"].lower()[:_LETTERS], Fraction(piece["number"].rstrip(".") or 0)
    if unit in _MONTHS:
        months = number * _MONTHS[unit]
        return (
            None if number.denominator != 1 else (frozenset({f"{_MONTHS[unit]} months"}), Interval(months=int(months)))
        )
    if unit in _DAYS:
        whole, part = divmod(number * _DAYS[unit], 1)
        length = part * DAY_US
        days = Interval(days=int(whole), microseconds=int(length))
        return None if length.denominator != 1 else (frozenset({f"{_DAYS[unit]} days"}), days)
    if unit in _MICROSECONDS:
        factor = _MICROSECONDS[unit]
        length = number * factor
        fills = _SECONDS if factor == SECOND_US and number.denominator != 1 else frozenset({f"{factor} us"})
        return None if length.denominator != 1 else (fills, Interval(microseconds=int(length)))
    return None
