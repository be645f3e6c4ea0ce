"""Which listed files are orphans: pure.

Invariant: a file goes only when nothing names it, nobody has it staged, its age is known and past the grace period by the store's clock.
A file that is named under another spelling stops the whole sweep: what cannot be compared must not be judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import unquote

FOREIGN_FLOOR = timedelta(hours=24)
"""Whatever the policy says: writers that register nothing with us may take a day between writing a file and committing it."""

_PARTS = re.compile(r"^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/]*))?(.*)$")


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


def loose_spelling(path: str) -> str:
    """What all spellings of one file have in common: the path without scheme and authority, decoded, with single slashes."""
    matched = _PARTS.match(path)
    plain = matched[3] if matched else path
    return re.sub(r"/+", "/", unquote(plain)).lower()


def _hours(age: timedelta) -> str:
    return f"{age.total_seconds() / 3600:.1f} h"
