"""Sessions and standbys that may still read what a publication replaced."""

from __future__ import annotations

from thermocline.runtime.pg import Connection, load_queries
from thermocline.seam.heap.lost_captures import why_capture_lost

_QUERIES = load_queries("thermocline.seam", "queries/older_readers.sql")


def note_standbys(conn: Connection, standby_grace_seconds: float) -> None:
    """Keep what each standby said last: one that is away for a moment has readers all the same."""
    conn.execute(_QUERIES["note_standbys"], {"grace_seconds": standby_grace_seconds})


def why_older_readers(conn: Connection, xid: str | None, standby_grace_seconds: float) -> str | None:
    """Who has a snapshot older than this transaction, and so may still need what it replaced."""
    if conn.execute(_QUERIES["reads_all_statistics"]).fetchone() != (True,):
        return "this role cannot see other sessions' snapshots; GRANT pg_read_all_stats to it"
    note_standbys(conn, standby_grace_seconds)
    row = conn.execute(_QUERIES["older_readers"], {"xid": xid}).fetchone()
    return f"{row[0]} may still read it" if row else None


def why_not_drop(conn: Connection, table_id: int, relid: int, standby_grace_seconds: float) -> str | None:
    """Who might still read the partition: a snapshot older than its publication, or a standby that may hold one."""
    where = {"table_id": table_id, "relid": relid, "grace_seconds": standby_grace_seconds}
    published = conn.execute(_QUERIES["tiered_xid"], where).fetchone()
    if published and (reason := why_older_readers(conn, published[0], standby_grace_seconds)):
        return reason
    if row := conn.execute(_QUERIES["standby_without_feedback"], where).fetchone():
        return f"{row[0]} may still read it"
    return why_capture_lost(conn, table_id, relid)
