"""The progress of long work as data: made once by whoever works, stored where a worker works, rendered anywhere.

Pure: percentage, rate and remaining time follow from the values alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Unit = Literal["rows", "bytes", "files", "ranges", "bins"]
_SHORTEST_SECONDS = 0.5
"""Below this a rate says nothing."""
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a phase of a command was at a moment. `total` is None where nobody knows it, and may be an estimate."""

    phase: str
    done: int
    unit: Unit
    started_at: datetime
    at: datetime
    total: int | None = None

    @property
    def percent(self) -> int | None:
        """Whole percents, at most 100; never 100 before the end."""
        if not self.total:
            return None
        return 100 if self.done >= self.total else min(99, self.done * 100 // self.total)

    @property
    def rate_per_second(self) -> float | None:
        seconds = (self.at - self.started_at).total_seconds()
        return self.done / seconds if self.done > 0 and seconds >= _SHORTEST_SECONDS else None

    @property
    def remaining_seconds(self) -> float | None:
        """At the rate so far."""
        if self.total is None or (rate := self.rate_per_second) is None:
            return None
        return max(0, self.total - self.done) / rate

    def __str__(self) -> str:
        return render_progress(self)

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "phase": self.phase,
            "done": self.done,
            "total": self.total,
            "unit": self.unit,
            "started_at": self.started_at.isoformat(),
            "at": self.at.isoformat(),
        }


def progress_from_json(stored: Mapping[str, Any]) -> Progress:
    return Progress(
        phase=stored["phase"],
        done=stored["done"],
        total=stored["total"],
        unit=stored["unit"],
        started_at=datetime.fromisoformat(stored["started_at"]),
        at=datetime.fromisoformat(stored["at"]),
    )


def render_progress(seen: Progress) -> str:
    """One line: `copying events_2026_01: 45%, 4,500,000 of 10,000,000 rows, 120,000 rows/s, 46 s left`."""
    parts = [f"{seen.percent}%"] if seen.percent is not None else []
    parts.append(render_amount(seen))
    if (rate := seen.rate_per_second) is not None:
        parts.append(render_rate(rate, seen.unit))
    if (left := seen.remaining_seconds) is not None and left > 0:
        parts.append(f"{render_seconds(left)} left")
    return f"{seen.phase}: {', '.join(parts)}"


def render_amount(seen: Progress) -> str:
    """What is done of what there is."""
    if seen.unit == "bytes":
        return render_bytes(seen.done) + (f" of {render_bytes(seen.total)}" if seen.total else "")
    return f"{seen.done:,}" + (f" of {seen.total:,}" if seen.total else "") + f" {seen.unit}"


def render_rate(rate_per_second: float, unit: Unit) -> str:
    if unit == "bytes":
        return f"{render_bytes(int(rate_per_second))}/s"
    return f"{rate_per_second:,.0f} {unit}/s" if rate_per_second >= 10 else f"{rate_per_second:.1f} {unit}/s"


def render_bytes(size_bytes: int) -> str:
    """Decimal units, as disks and networks count."""
    size, unit = float(size_bytes), 0
    while size >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_BYTE_UNITS[unit]}" if unit == 0 or size >= 99.5 else f"{size:.1f} {_BYTE_UNITS[unit]}"


def render_seconds(seconds: float) -> str:
    """`46 s`, `3 min 5 s`, `2 h 10 min`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")
