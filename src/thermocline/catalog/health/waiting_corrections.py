"""Corrections that wait to be folded, as cycles count them, and since when some of them wait."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/waiting_corrections.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Corrections below the cut-line: how many, and the first and the last of their versions."""

    rows: int
    first_version: int | None
    last_version: int | None


def note_waiting(conn: Connection, table_id: int, waiting: Waiting) -> float:
    """Record what waits; for how many seconds some of it is known to wait."""
    row = conn.execute(
        _QUERIES["note"],
        {
            "table_id": table_id,
            "rows": waiting.rows,
            "first_version": waiting.first_version,
            "last_version": waiting.last_version,
        },
    ).fetchone()
    return float(row[0]) if row and row[0] is not None else 0.0
