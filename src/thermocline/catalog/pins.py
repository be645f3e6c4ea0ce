"""Pins: published snapshots that a reader outside Postgres (Spark, Trino, a notebook) still reads.

A pin keeps files of the lake, and partitions of the heap that reach above its T. Folding, tiering and maintenance go
on; only an operation that would delete a file or drop a partition reads the pins. Such an operation must read Postgres'
live snapshots *first* and then call `read_pins_to_keep`, which waits for pins in transactions that are not over: a
reader that is no longer among the live snapshots has committed its pin by then. In the other order a pin taken between
the two reads would be missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/pins.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A snapshot that one reader pinned; `snapshot_id` is None if the lake was empty."""

    id: int
    table_id: int
    table: TableName
    snapshot_id: int | None
    metadata_location: str | None
    holder: str
    pinned_at: datetime
    expires_at: datetime
    is_superseded: bool
    t: int


def read_pins(conn: Connection, table_id: int | None = None) -> tuple[Pin, ...]:
    """The pins of one table, or of all, that have not expired; the next to expire first."""
    return tuple(
        Pin(
            id=row.id,
            table_id=row.table_id,
            table=TableName(row.schema_name, row.table_name),
            snapshot_id=row.snapshot_id,
            metadata_location=row.metadata_location,
            holder=row.holder,
            pinned_at=row.pinned_at,
            expires_at=row.expires_at,
            is_superseded=row.is_superseded,
            t=row.t,
        )
        for row in rows_by_name(conn).execute(_QUERIES["living"], {"table_id": table_id})
    )


def read_pins_to_keep(conn: Connection, table_id: int) -> tuple[Pin, ...]:
    """The pins of a table that have not expired. Waits for pins in uncommitted transactions, at most for the session's
    lock_timeout."""
    with conn.transaction():
        conn.execute(_QUERIES["hold_still"])
        return read_pins(conn, table_id)


def sweep_pins(conn: Connection) -> int:
    """Delete the expired pins and count them per table; returns how many there were."""
    row = rows_by_name(conn).execute(_QUERIES["sweep"]).fetchone()
    return int(row.pins) if row else 0


def read_swept(conn: Connection) -> dict[TableName, int]:
    """How many expired pins of each table were deleted since it was registered."""
    rows = rows_by_name(conn).execute(_QUERIES["swept"])
    return {TableName(row.schema_name, row.table_name): row.pins for row in rows}


def release_pin(conn: Connection, pin: int) -> bool:
    """Release a pin as its holder or as an operator; False if there was no such pin."""
    return conn.execute(_QUERIES["release"], {"pin": pin}).fetchone() == (True,)


def was_ever_taken(conn: Connection, pin: int) -> bool:
    """Whether a pin of this number was taken at some time; a released or expired one leaves no row."""
    return conn.execute(_QUERIES["was_taken"], {"pin": pin}).fetchone() == (True,)
