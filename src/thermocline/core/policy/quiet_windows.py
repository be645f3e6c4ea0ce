"""Times of day in which no compaction starts: `09:00-17:00 UTC; mon-fri 22:00-06:00 Europe/Berlin`.

Pure: the moment is an argument. A window that ends before it begins crosses midnight and belongs to the day it begins
on; wall-clock times follow the zone's own summer time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from thermocline.errors.maintenance import BadQuietWindow

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z][a-z,\-]*)\s+)?(?P<begin>[0-9]{1,2}:[0-9]{2})\s*-\s*(?P<end>[0-9]{1,2}:[0-9]{2})(?:\s+(?P<zone>[A-Za-z0-9_+\-/]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWindow:
    """Begins and ends at wall-clock times of a zone, on the given weekdays (0 is Monday)."""

    begin: time
    end: time
    zone: str = "UTC"
    days: frozenset[int] = frozenset(range(7))


def parse_quiet_windows(text: str) -> tuple[QuietWindow, ...]:
    """Several are separated by `;`; none for an empty text."""
    return tuple(_parse(part.strip()) for part in text.split(";") if part.strip())


def _parse(text: str) -> QuietWindow:
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise BadQuietWindow(f"{text!r} is not a quiet window.")
    window = QuietWindow(
        begin=_parse_time(found["begin"], text),
        end=_parse_time(found["end"], text),
        zone=found["zone"] or "UTC",
        days=_parse_days(found["days"], text),
    )
    if window.begin == window.end and (found["begin"], found["end"]) != ("00:00", "24:00"):
        raise BadQuietWindow(f"The quiet window {text!r} ends when it begins.")
    try:
        ZoneInfo(window.zone)
    except (KeyError, ValueError, OSError):
        raise BadQuietWindow(
            f"The quiet window {text!r} names the time zone {window.zone!r}, which is not known."
        ) from None
    return window


def _parse_time(text: str, window: str) -> time:
    hour, minute = (int(part) for part in text.split(":"))
    if (hour, minute) == (24, 0):
        return time(0, 0)
    if hour > 23 or minute > 59:
        raise BadQuietWindow(f"The quiet window {window!r} has {text}, which is no time of day.")
    return time(hour, minute)


def _parse_days(text: str | None, window: str) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise BadQuietWindow(
                f"The quiet window {window!r} has {part!r}, which is no weekday or range of weekdays (mon … sun)."
            )
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days.update((begin + step) % 7 for step in range((end - begin) % 7 + 1))
    return frozenset(days)


def quiet_until(windows: Sequence[QuietWindow], now: datetime) -> datetime | None:
    """When the quiet that holds now ends, windows that touch or overlap taken as one; None outside of all."""
    until: datetime | None = None
    for _ in range(64):  # windows that cover the whole week never end: give the far end found so far
        ends = [end for window in windows if (end := _end_of(window, until or now)) is not None]
        if not ends or (until is not None and max(ends) <= until):
            break
        until = max(ends)
    return until


def quiet_from(windows: Sequence[QuietWindow], now: datetime) -> datetime | None:
    """When the next quiet begins; None where there is no window."""
    begins = []
    for window in windows:
        zone = ZoneInfo(window.zone)
        today = now.astimezone(zone).date()
        spans = (
            _span(window, day, zone)
            for ahead in range(9)
            if (day := today + timedelta(days=ahead)).weekday() in window.days
        )
        begins += [begin for begin, _ in spans if begin > now][:1]
    return min(begins, default=None)


def _end_of(window: QuietWindow, now: datetime) -> datetime | None:
    zone = ZoneInfo(window.zone)
    today = now.astimezone(zone).date()
    for day in (today - timedelta(days=1), today):
        if day.weekday() in window.days:
            begin, end = _span(window, day, zone)
            if begin <= now < end:
                return end
    return None


def _span(window: QuietWindow, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    last = day if window.end > window.begin else day + timedelta(days=1)
    return min(_moments(day, window.begin, zone)), max(_moments(last, window.end, zone))


def _moments(day: date, at: time, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """A wall-clock time comes twice when summer time ends, and never when it begins: both moments it may mean, else one
    twice.

    In UTC, because the difference of two times of one zone is taken on the wall clock.
    """
    first, second = (datetime.combine(day, at.replace(fold=fold), zone).astimezone(UTC) for fold in (0, 1))
    return first, second
