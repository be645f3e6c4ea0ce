"""When a listed file that nothing names is old enough to be an orphan: pure.

Invariant: a file goes only when its age is known and past the grace period by the store's own clock. Whether something
names it is for the comparison in `deletion` to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

FOREIGN_FLOOR = timedelta(hours=24)
"""Whatever the policy says: writers that register nothing with us may take a day between writing a file and committing
it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file as the store lists it; its time is the store's own, or None when the store does not tell."""

    path: str
    size_bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Whether a listed file that nothing names under this spelling is an orphan, and why or why not."""

    is_orphan: bool
    reason: str


def judge_age(file: ListedFile, now: datetime, grace: timedelta) -> Judged:
    """By age alone; what names the file was asked before."""
    if file.modified is None:
        return Judged(is_orphan=False, reason="its age is not known")
    age = now - file.modified
    limit = max(grace, FOREIGN_FLOOR)
    if age <= limit:
        return Judged(is_orphan=False, reason=f"{_hours(age)} old, not past {_hours(limit)}")
    return Judged(is_orphan=True, reason=f"named by nothing, {_hours(age)} old")


def _hours(age: timedelta) -> str:
    return f"{age.total_seconds() / 3600:.1f} h"
