"""Jumps that an operator accepted: the key up to which new rows count, and the line up to which rows may expire."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.rows import class_row

from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/jumps.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedJumps:
    """How far the cut-line and the retention line may move, on the axis; None if no jump was accepted."""

    t: int | None
    r: int | None


def read_accepted(conn: Connection, table_id: int) -> AcceptedJumps:
    cursor = conn.cursor(row_factory=class_row(AcceptedJumps))
    return cursor.execute(_QUERIES["accepted"], {"table_id": table_id}).fetchone() or AcceptedJumps(t=None, r=None)


def accept(conn: Connection, table_id: int, *, t: int | None = None, r: int | None = None) -> None:
    conn.execute(_QUERIES["accept"], {"table_id": table_id, "t": t, "r": r})
