"""Forced passes, one pending per table, and when each table's next pass is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from thermocline.catalog.requests import CHANNEL, RequestState, progress_values, read_state_row
from thermocline.catalog.safety import Owner
from thermocline.core.messages.progress import Progress
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/maintenance_requests.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedPass:
    """One request a worker took; `request` is the request as it was filed, as data."""

    id: int
    owner: Owner
    request: Mapping[str, Any]


def file_forced_pass(conn: Connection, owner: Owner, request: Mapping[str, Any]) -> int:
    """File a request for a pass; a request that is still pending is replaced."""
    query = "file_table" if owner.table_id is not None else "file_lake"
    row = rows_by_name(conn).execute(_QUERIES[query], {**owner.values(), "request": Jsonb(dict(request))}).fetchone()
    assert row is not None
    conn.execute("select pg_notify(%s, %s)", [CHANNEL, "maintain"])
    return int(row.id)


def take_forced_pass(conn: Connection, worker: str) -> ForcedPass | None:
    row = rows_by_name(conn).execute(_QUERIES["take"], {"worker": worker}).fetchone()
    return (
        ForcedPass(id=row.id, owner=Owner(table_id=row.table_id, lake_id=row.lake_id), request=row.request)
        if row
        else None
    )


def give_back(conn: Connection, request_id: int) -> None:
    """Leave the request for later: another pass works on its table."""
    conn.execute(_QUERIES["give_back"], {"id": request_id})


def tidy_forced_passes(conn: Connection) -> None:
    """Requests of dead workers become pending again; old rows go."""
    for query in ("take_orphaned", "prune"):
        conn.execute(_QUERIES[query])


def note_forced_progress(conn: Connection, request_id: int, told: str | Progress) -> None:
    conn.execute(_QUERIES["progress"], {"id": request_id, **progress_values(told)})


def finish_forced_pass(conn: Connection, request_id: int, state: str, result: Mapping[str, Any]) -> None:
    conn.execute(_QUERIES["finish"], {"id": request_id, "state": state, "result": Jsonb(dict(result))})


def read_forced_pass(conn: Connection, request_id: int) -> RequestState | None:
    return read_state_row(conn.execute(_QUERIES["look"], {"id": request_id}).fetchone())


def schedule_new_tables(conn: Connection, interval_seconds: float) -> None:
    """Tables that have no time yet get one within the interval, by chance, so that they do not march in step."""
    conn.execute(_QUERIES["schedule_new_tables"], {"interval_seconds": interval_seconds})


def read_due(conn: Connection) -> tuple[Owner, ...]:
    return tuple(conn.cursor(row_factory=class_row(Owner)).execute(_QUERIES["due"]))


def claim_due(conn: Connection, owner: Owner, interval_seconds: float) -> bool:
    """Whether the pass that is due is ours to run; its next one is set, a tenth earlier or later by chance."""
    return conn.execute(_QUERIES["claim"], {**owner.values(), "interval_seconds": interval_seconds}).rowcount == 1


def note_schedule(conn: Connection, owner: Owner, state: str | None, next_at: datetime | None = None) -> None:
    conn.execute(_QUERIES["note_state"], {**owner.values(), "state": state, "next_at": next_at})


def hasten_pass(conn: Connection, owner: Owner) -> None:
    """The next pass of a table is due now."""
    conn.execute(_QUERIES["hasten"], owner.values())


def read_schedule(conn: Connection, owner: Owner) -> tuple[datetime | None, str | None]:
    row = rows_by_name(conn).execute(_QUERIES["read_schedule"], owner.values()).fetchone()
    return (row.next_at, row.state) if row else (None, None)
