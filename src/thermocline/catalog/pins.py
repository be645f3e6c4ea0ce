"""Pins: published snapshots that a reader outside Postgres (Spark, Trino, a notebook) still reads.

A pin keeps files of the lake, and the heap's partitions that reach above its T, never operations: folding, tiering and
maintenance go on, and only what would delete a file or drop a partition asks here. Whoever does must look at Postgres'
live snapshots *first* and then call `read_pins_to_keep`: it waits for pins whose transactions are not over, and a
reader that was gone from the live snapshots has committed its pin by then. The other way round a pin could slip between
the two looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/pins.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One reader's hold on a snapshot; `snapshot_id` is None when the lake held nothing."""

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
    """The living pins of one table, or of all, the next to expire first."""
    return tuple(
        Pin(
            id=row[0],
            table_id=row[1],
            table=TableName(row[2], row[3]),
            snapshot_id=row[4],
            metadata_location=row[5],
            holder=row[6],
            pinned_at=row[7],
            expires_at=row[8],
            is_superseded=row[9],
            t=row[10],
        )
        for row in conn.execute(_QUERIES["living"], {"table_id": table_id})
    )


def read_pins_to_keep(conn: Connection, table_id: int) -> tuple[Pin, ...]:
    """The living pins, after those that are being taken right now: waits for them, no longer than the session's
    lock_timeout."""
    with conn.transaction():
        conn.execute(_QUERIES["hold_still"])
        return read_pins(conn, table_id)


def sweep_pins(conn: Connection) -> int:
    """Remove the pins that are dead and count them per table; how many there were."""
    row = conn.execute(_QUERIES["sweep"]).fetchone()
    return int(row[0]) if row else 0


def read_swept(conn: Connection) -> dict[TableName, int]:
    """How many dead pins were removed since the table was registered."""
    return {TableName(schema, name): pins for schema, name, pins in conn.execute(_QUERIES["swept"])}


def release_pin(conn: Connection, pin: int) -> bool:
    """Give a pin back as its holder or as an operator; False when it was gone already."""
    return conn.execute(_QUERIES["release"], {"pin": pin}).fetchone() == (True,)
