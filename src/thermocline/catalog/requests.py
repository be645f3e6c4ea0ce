"""Work that a command asks of a running worker, and the workers that are alive."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from thermocline.runtime.pg import Connection, load_queries

WORKER_APPLICATION = "thermocline worker"
CHANNEL = "thermocline_requests"
_QUERIES = load_queries("thermocline.catalog", "queries/requests.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request a worker took."""

    id: int
    table_id: int
    verb: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """How far a request has come; `result` is there once it ended."""

    state: str
    progress: str | None
    result: dict[str, Any] | None


def beat(conn: Connection, worker: str) -> None:
    """Say that this worker lives, on the connection whose end says that it does not."""
    conn.execute(_QUERIES["beat"], {"name": worker, "pid": os.getpid(), "host": socket.gethostname()})


def leave(conn: Connection, worker: str) -> None:
    conn.execute(_QUERIES["leave"], {"name": worker})


def tidy(conn: Connection) -> None:
    """Requests of dead workers become pending again; old rows go."""
    for query in ("take_orphaned", "sweep_workers", "prune"):
        conn.execute(_QUERIES[query])


def read_live_worker(conn: Connection) -> str | None:
    row = conn.execute(_QUERIES["live_worker"]).fetchone()
    return row[0] if row else None


def file_request(conn: Connection, table_id: int, verb: str) -> int:
    """Ask for work; asking again while it is pending is the same request."""
    row = conn.execute(_QUERIES["file"], {"table_id": table_id, "verb": verb}).fetchone()
    assert row is not None
    conn.execute("select pg_notify(%s, %s)", [CHANNEL, verb])
    return int(row[0])


def take_request(conn: Connection, worker: str) -> Request | None:
    row = conn.execute(_QUERIES["take"], {"worker": worker}).fetchone()
    return Request(id=row[0], table_id=row[1], verb=row[2]) if row else None


def note_progress(conn: Connection, request_id: int, progress: str) -> None:
    conn.execute(_QUERIES["progress"], {"id": request_id, "progress": progress})


def finish_request(conn: Connection, request_id: int, state: str, result: dict[str, Any]) -> None:
    conn.execute(_QUERIES["finish"], {"id": request_id, "state": state, "result": Jsonb(result)})


def read_request(conn: Connection, request_id: int) -> RequestState | None:
    row = conn.execute(_QUERIES["look"], {"id": request_id}).fetchone()
    return RequestState(state=row[0], progress=row[1], result=row[2]) if row else None
