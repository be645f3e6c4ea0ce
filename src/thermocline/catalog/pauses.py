"""Paused tables, and the report of each table's last cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import dict_row

from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/pauses.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleState:
    """The report of a table's last cycle."""

    at: datetime
    sentence: str
    problem_code: str | None
    deferred: tuple[str, ...]
    next_step: str | None


def apply_pause(conn: Connection, table_id: int | None) -> bool:
    """Pause a table, or all of them if None; False when it was paused already."""
    return conn.execute(_QUERIES["pause"], {"table_id": table_id}).rowcount == 1


def apply_resume(conn: Connection, table_id: int | None) -> bool:
    """Resume a table, or all of them if None; False when nothing was paused."""
    query = "resume" if table_id is not None else "resume_all"
    return conn.execute(_QUERIES[query], {"table_id": table_id}).rowcount > 0


def read_paused_since(conn: Connection, table_id: int | None) -> datetime | None:
    """When the table was paused, alone or with all others; None if it is not paused. A table without a registration
    (None) is paused with all others only."""
    row = rows_by_name(conn).execute(_QUERIES["paused_since"], {"table_id": table_id}).fetchone()
    return row.since if row else None


def read_paused(conn: Connection) -> tuple[str, ...]:
    """The names of the paused tables; `every table` when all are paused."""
    return tuple(row.paused for row in rows_by_name(conn).execute(_QUERIES["paused"]))


def is_busy(conn: Connection, table_id: int) -> bool:
    """Whether a writer holds the table's advisory lock."""
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


def note_success(conn: Connection, table_id: int) -> None:
    """Count a cycle whose every part succeeded; tiering may succeed again and again while folding fails."""
    conn.execute(_QUERIES["note_success"], {"table_id": table_id})


def read_cycle(conn: Connection, table_id: int) -> CycleState | None:
    row = conn.cursor(row_factory=dict_row).execute(_QUERIES["cycle"], {"table_id": table_id}).fetchone()
    return CycleState(**{**row, "deferred": tuple(row["deferred"])}) if row else None
