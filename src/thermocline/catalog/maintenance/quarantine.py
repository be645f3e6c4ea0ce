"""Notes of orphans that were moved aside: where each was, where it is kept, until when, and whether somebody wants it
back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from thermocline.catalog.safety import Owner
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/quarantine.sql")
Which = Literal["all", "unmoved", "over", "wanted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """An orphan that was moved aside, and where it is until it is deleted."""

    path: str
    kept_at: str
    size_bytes: int
    until: datetime


def insert_note(conn: Connection, owner: Owner, file: Quarantined) -> None:
    """Before the file is moved."""
    values = {
        **owner.values(),
        "path": file.path,
        "kept_at": file.kept_at,
        "size_bytes": file.size_bytes,
        "until": file.until,
    }
    conn.execute(_QUERIES["insert"], values)


def note_moved(conn: Connection, kept_at: str) -> None:
    conn.execute(_QUERIES["moved"], {"kept_at": kept_at})


def note_wanted(conn: Connection, owner: Owner) -> None:
    """From now on none of these is deleted, whatever their time."""
    conn.execute(_QUERIES["want"], owner.values())


def read_notes(
    conn: Connection, owner: Owner, which: Which = "all", *, now: datetime | None = None
) -> tuple[Quarantined, ...]:
    """The newest first, so that of two files with one name the later one comes back."""
    rows = conn.execute(_QUERIES["read"], {**owner.values(), "which": which, "now": now})
    return tuple(
        Quarantined(path=path, kept_at=kept_at, size_bytes=size, until=until) for path, kept_at, size, until in rows
    )


@contextmanager
def locked(conn: Connection, kept_at: str, *, wanted: bool = False) -> Iterator[bool]:
    """Nobody else touches this file meanwhile; whether it is still noted, and (not) wanted back as it was."""
    with conn.transaction():
        yield conn.execute(_QUERIES["lock"], {"kept_at": kept_at, "wanted": wanted}).fetchone() is not None


def release(conn: Connection, kept_at: str) -> None:
    """The file is in its place, or deleted."""
    conn.execute(_QUERIES["release"], {"kept_at": kept_at})
