"""Requests that commands file for a running worker, and the workers that are alive."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from thermocline.core.messages.progress import Progress, progress_from_json
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

WORKER_APPLICATION = "thermocline worker"
CHANNEL = "thermocline_requests"
_QUERIES = load_queries("thermocline.catalog", "queries/requests.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that a worker took."""

    id: int
    table_id: int
    verb: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """The state of a request; it has a `result` once it ended."""

    state: str
    progress: str | None
    measured: Progress | None
    result: dict[str, Any] | None


def beat(conn: Connection, worker: str) -> None:
    """Record that this worker is alive as long as this connection is."""
    conn.execute(_QUERIES["beat"], {"name": worker, "pid": os.getpid(), "host": socket.gethostname()})


def leave(conn: Connection, worker: str) -> None:
    conn.execute(_QUERIES["leave"], {"name": worker})


def tidy(conn: Connection) -> None:
    """Make requests of dead workers pending again, and delete old rows."""
    for query in ("take_orphaned", "sweep_workers", "prune"):
        conn.execute(_QUERIES[query])


def read_live_worker(conn: Connection) -> str | None:
    row = rows_by_name(conn).execute(_QUERIES["live_worker"]).fetchone()
    return row.name if row else None


def is_worker_alive(conn: Connection, pid: int) -> bool:
    """Whether the worker with this process id on this machine is connected."""
    values = {"pid": pid, "host": socket.gethostname()}
    return conn.execute(_QUERIES["is_worker_alive"], values).fetchone() == (True,)


def file_request(conn: Connection, table_id: int, verb: str) -> int:
    """File a request; the same one while it is pending or running returns its id."""
    row = rows_by_name(conn).execute(_QUERIES["file"], {"table_id": table_id, "verb": verb}).fetchone()
    assert row is not None
    conn.execute("select pg_notify(%s, %s)", [CHANNEL, verb])
    return int(row.id)


def take_request(conn: Connection, worker: str) -> Request | None:
    return conn.cursor(row_factory=class_row(Request)).execute(_QUERIES["take"], {"worker": worker}).fetchone()


def note_progress(conn: Connection, request_id: int, told: str | Progress) -> None:
    conn.execute(_QUERIES["progress"], {"id": request_id, **progress_values(told)})


def progress_values(told: str | Progress) -> dict[str, Any]:
    """The columns that progress is stored in."""
    return {"progress": str(told), "measured": Jsonb(told.to_json()) if isinstance(told, Progress) else None}


def finish_request(conn: Connection, request_id: int, state: str, result: dict[str, Any]) -> None:
    conn.execute(_QUERIES["finish"], {"id": request_id, "state": state, "result": Jsonb(result)})


def read_request(conn: Connection, request_id: int) -> RequestState | None:
    return read_state_row(conn.execute(_QUERIES["state"], {"id": request_id}).fetchone())


def read_state_row(row: tuple[Any, ...] | None) -> RequestState | None:
    """state, progress, measured, result"""
    if row is None:
        return None
    measured = None if row[2] is None else progress_from_json(row[2])
    return RequestState(state=row[0], progress=row[1], measured=measured, result=row[3])
