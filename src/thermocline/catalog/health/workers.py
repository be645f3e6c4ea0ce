"""Workers as they record themselves: heartbeats, and when a whole cycle over all tables last ended."""

from __future__ import annotations

from psycopg.rows import class_row

from thermocline.core.health.health_observation import WorkerSeen
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/workers.sql")


def touch(conn: Connection, worker: str) -> None:
    """A heartbeat, from whatever connection; `requests.beat` names the connection that serves requests."""
    conn.execute(_QUERIES["touch"], {"name": worker})


def note_cycle_started(conn: Connection, worker: str) -> None:
    conn.execute(_QUERIES["start_cycle"], {"name": worker})


def note_cycle_finished(conn: Connection, worker: str) -> None:
    conn.execute(_QUERIES["finish_cycle"], {"name": worker})


def read_workers(conn: Connection) -> tuple[WorkerSeen, ...]:
    """Every worker that did not leave, the one seen last first."""
    return tuple(conn.cursor(row_factory=class_row(WorkerSeen)).execute(_QUERIES["workers"]).fetchall())
