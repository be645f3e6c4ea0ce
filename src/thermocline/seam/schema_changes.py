"""Changes of the heap's columns as Postgres follows them: delta, foreign table, routing functions and seam, by
functions of our schema.

Where the role that made our catalog is a superuser, an event trigger calls them in the transaction of the ALTER TABLE
itself; else the next cycle does, and captures refuse until then.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from thermocline.errors import HeapChanged
from thermocline.runtime.pg import Connection, load_queries
from thermocline.seam.heap.partitions import short_locks

_QUERIES = load_queries("thermocline.seam", "queries/schema_changes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """Whether the heap has other columns than the seam was built for, and whether the lake's schema lags behind."""

    heap_changed: bool
    lake_behind: bool


def read_pending_change(conn: Connection, table_id: int) -> PendingChange:
    cursor = conn.cursor(row_factory=class_row(PendingChange))
    found = cursor.execute(_QUERIES["following"], {"table_id": table_id}).fetchone()
    return found or PendingChange(heap_changed=False, lake_behind=False)


def note_seam(conn: Connection, table_id: int) -> None:
    """Record grants, options and comments of the seam while it is there: where no event trigger watches, a DROP COLUMN
    … CASCADE drops it, and the next cycle makes it again."""
    conn.execute(_QUERIES["note_seam"], {"table_id": table_id})


def follow_heap_columns(conn: Connection, table_id: int, heap_oid: int, lock_timeout_ms: int) -> tuple[str, ...]:
    """Follow the heap in one short transaction; what was followed, or the refusal with column and types named."""
    try:
        with short_locks(conn, lock_timeout_ms, [heap_oid], "follow a change of its columns"):
            conn.execute(_QUERIES["quiet"])
            row = conn.execute(_QUERIES["follow"], {"table_id": table_id}).fetchone()
            return tuple(row[0]) if row else ()
    except psycopg.errors.FeatureNotSupported as refused:
        raise HeapChanged(f"{_sentence(refused)}.", hint=refused.diag.message_hint) from refused


def read_missing_values(conn: Connection, table_id: int) -> dict[int, str]:
    """What files without a column read as, by the column's field number."""
    return dict(conn.execute(_QUERIES["missing"], {"table_id": table_id}).fetchall())


def renumber_new_fields(conn: Connection, table_id: int, first_free: int) -> None:
    """Give columns that the lake does not have yet numbers from here on."""
    conn.execute(_QUERIES["renumber_new_fields"], {"table_id": table_id, "first_free": first_free})


def note_lake_behind(conn: Connection, table_id: int) -> None:
    """The lake's schema may not be the table's: the next cycle compares them."""
    conn.execute(_QUERIES["lake_behind"], {"table_id": table_id})


def apply_lake_columns(conn: Connection, table_id: int) -> None:
    """The lake has the columns: the foreign table and the view read them there."""
    conn.execute(_QUERIES["quiet"])
    conn.execute(_QUERIES["finish"], {"table_id": table_id})


def _sentence(refused: psycopg.Error) -> str:
    text = refused.diag.message_primary or str(refused)
    return text[:1].upper() + text[1:]
