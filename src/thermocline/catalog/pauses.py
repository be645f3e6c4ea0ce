"""What each table's cycle is up to: paused or not, and what the last one said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/pauses.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleState:
    """The last cycle of a table in its own words."""

    at: datetime
    sentence: str
    problem_code: str | None
    deferred: tuple[str, ...]
    next_step: str | None


def apply_pause(conn: Connection, table_id: int | None) -> bool:
    """Pause a table, or all of them; whether it was not paused before."""
    return conn.execute(_QUERIES["pause"], {"table_id": table_id}).rowcount == 1


def apply_resume(conn: Connection, table_id: int | None) -> bool:
    """Resume a table, or everything; whether anything was paused."""
    return (
        conn.execute(_QUERIES["resume" if table_id is not None else "resume_all"], {"table_id": table_id}).rowcount > 0
    )


def read_paused_since(conn: Connection, table_id: int | None) -> datetime | None:
    """Since when nothing of this table moves, for a plain lake table (None) since when everything is paused; None when
    it moves."""
    row = conn.execute(_QUERIES["paused_since"], {"table_id": table_id}).fetchone()
    return row[0] if row else None


def read_paused(conn: Connection) -> tuple[str, ...]:
    """What is paused, in words."""
    return tuple(row[0] for row in conn.execute(_QUERIES["paused"]))


def is_busy(conn: Connection, table_id: int) -> bool:
    """Whether somebody is working on the table right now."""
    return conn.execute(_QUERIES["is_busy"], {"table_id": table_id}).fetchone() == (True,)


def note_cycle(
    conn: Connection,
    table_id: int,
    sentence: str,
    *,
    problem_code: str | None = None,
    deferred: Sequence[str] = (),
    next_step: str | None = None,
) -> None:
    conn.execute(
        _QUERIES["note_cycle"],
        {
            "table_id": table_id,
            "sentence": sentence,
            "problem_code": problem_code,
            "deferred": list(deferred),
            "next_step": next_step,
        },
    )


def read_cycle(conn: Connection, table_id: int) -> CycleState | None:
    row = conn.execute(_QUERIES["cycle"], {"table_id": table_id}).fetchone()
    if row is None:
        return None
    return CycleState(at=row[0], sentence=row[1], problem_code=row[2], deferred=tuple(row[3]), next_step=row[4])
