"""When a listed file that nothing names is old enough to be an orphan: pure.

Invariant: a file goes only when its age is known and past the grace period by the store's own clock. Whether something
names it is for the comparison in `deletion` to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

FOREIGN_FLOOR = timedelta(hours=24)
"""Whatever the policy says: writers that register nothing with us may take a day between writing a file and committing
it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file as the store lists it; its time is the store's own, or None when the store gives none."""

    path: str
    size_bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Whether a listed file that nothing names under this spelling is an orphan, and why or why not."""

    is_orphan: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """The orphans of a listing. `files` may be read more than once; a large sweep keeps them on disk."""

    files: Iterable[ListedFile]
    count: int
    size_bytes: int
    steps: tuple[str, ...] = ()
    """The first files, each with the reason why it is an orphan."""
    overdue: tuple[ListedFile, ...] = ()
    """Quarantined files that were kept long enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPlan:
    """Metadata files that left the table's history."""

    files: tuple[ListedFile, ...]


def judge_age(file: ListedFile, now: datetime, grace: timedelta) -> Judged:
    """By age alone; references to the file are checked before."""
    if file.modified is None:
        return Judged(is_orphan=False, reason="its age is not known")
    age = now - file.modified
    limit = max(grace, FOREIGN_FLOOR)
    if age <= limit:
        return Judged(is_orphan=False, reason=f"{_hours(age)} old, not past {_hours(limit)}")
    return Judged(is_orphan=True, reason=f"named by nothing, {_hours(age)} old")


def _hours(age: timedelta) -> str:
    return f"{age.total_seconds() / 3600:.1f} h"
