"""The operator's word for a jump: up to which key rows are believed, and down to which line rows may expire."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/jumps.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedJumps:
    """How far the cut-line and the retention line were let go, on the axis; None when nobody was asked."""

    t: int | None
    r: int | None


def read_accepted(conn: Connection, table_id: int) -> AcceptedJumps:
    row = conn.execute(_QUERIES["accepted"], {"table_id": table_id}).fetchone()
    return AcceptedJumps(t=row[0], r=row[1]) if row else AcceptedJumps(t=None, r=None)


def accept(conn: Connection, table_id: int, *, t: int | None = None, r: int | None = None) -> None:
    conn.execute(_QUERIES["accept"], {"table_id": table_id, "t": t, "r": r})
