"""The floor of the seam's heap arm: a literal at or below every T that a live snapshot sees, so that the planner can
leave the heap out.

A query that is provably cold contradicts it and touches no partition of the heap, not even the spill. The view is
planned as it stands in the catalog, whatever snapshot the reader has: a floor above a reader's own T would hide rows
that it reads from the heap. So it follows T by the rule of dropped partitions: when no live snapshot predates the
publication of that T. A floor too low is slower, never wrong.
"""

from __future__ import annotations

from thermocline.runtime.pg import Connection, load_queries, rows_by_name
from thermocline.seam.heap.older_readers import note_standbys, why_older_readers
from thermocline.seam.objects import SeamDefinition

_QUERIES = load_queries("thermocline.seam", "queries/floor.sql")


def plan_floor(conn: Connection, table_id: int, standby_grace_seconds: float) -> int | None:
    """The floor that every live snapshot allows, when it is above the view's own."""
    note_standbys(conn, standby_grace_seconds)
    values = {"table_id": table_id, "grace_seconds": standby_grace_seconds}
    row = rows_by_name(conn).execute(_QUERIES["due"], values).fetchone()
    if row is None or row.waits_for_standby or why_older_readers(conn, row.published_xid, standby_grace_seconds):
        return None
    return int(row.t)


def lock_seam(conn: Connection, seam: SeamDefinition) -> None:
    """The view's lock before any lock on the heap: the order of its readers, and of an ALTER TABLE."""
    conn.execute(_QUERIES["lock_seam"], {"table_id": seam.table_id})


def rebuild_view(conn: Connection, seam: SeamDefinition) -> None:
    """Rebuild the view with the literals it has."""
    conn.execute(_QUERIES["rebuild"], {"table_id": seam.table_id})


def apply_floor(conn: Connection, seam: SeamDefinition, floor: int) -> None:
    """Rebuild the view with another floor; its line, columns, grants and triggers stay."""
    lock_seam(conn, seam)
    conn.execute(_QUERIES["apply"], {"table_id": seam.table_id, "floor": floor})
