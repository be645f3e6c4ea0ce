"""Passes in the journal: a row of kind `maintain` per pass, owned while a session's lock on (maintenance, table) is
held.

The lock is taken before the row is written and dies with its connection, so a row whose lock is free is of a dead pass.
Its staged files become strays, which the janitor deletes after the grace period.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

from psycopg.rows import class_row, scalar_row
from psycopg.types.json import Jsonb

from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.catalog.safety import Owner
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.outcome import Operation, Outcome
from thermocline.errors.maintenance import PassRunning
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/passes.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassLine:
    """One pass as it is shown; `ended_at` is none while it runs."""

    pass_id: str
    phase: str
    forced: bool
    sentence: str | None
    error: str | None
    counters: Mapping[str, Any]
    progress: str | None
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatus:
    """The last status of one operation: not yet run, successful, failed, disabled or paused."""

    operation: str
    status: str
    at: datetime | None
    message: str | None


@contextmanager
def pass_lock(conn: Connection, owner: Owner, name: str, *, concurrent: bool = False) -> Iterator[None]:
    """One pass per table at a time, forced or scheduled. Passes that only compact named partitions take a shared lock
    (`concurrent`) and run together."""
    check_may_change_lakes(conn)
    kind = "_shared" if concurrent else ""
    if conn.execute(_QUERIES[f"try_lock{kind}"], owner.values()).fetchone() != (True,):
        raise PassRunning(f"Another pass works on {name}.")
    try:
        yield
    finally:
        if not conn.closed and not conn.broken:
            conn.execute(_QUERIES[f"unlock{kind}"], owner.values())


@contextmanager
def partition_lock(conn: Connection, owner: Owner, partition: str) -> Iterator[bool]:
    """Whether this pass has the partition for itself; two partitions with one hash wait for each other, which harms
    nothing."""
    named = f"{owner.table_id}/{owner.lake_id}/{partition}".encode()
    place = {"place": int.from_bytes(blake2b(named, digest_size=4).digest(), "big", signed=True)}
    held = conn.execute(_QUERIES["try_lock_partition"], place).fetchone() == (True,)
    try:
        yield held
    finally:
        if held and not conn.closed and not conn.broken:
            conn.execute(_QUERIES["unlock_partition"], place)


def begin_pass(
    conn: Connection,
    owner: Owner,
    *,
    worker: str,
    forced: bool,
    policy: Mapping[str, Any],
    base: int | None,
    concurrent: bool = False,
) -> uuid.UUID:
    """Write the started row, under the lock. The row of a dead pass is closed first, unless a concurrent pass may own
    it."""
    if not concurrent:
        conn.execute(_QUERIES["close_dead_of"], owner.values())
    pass_id = uuid.uuid4()
    values = {
        **owner.values(),
        "op_id": pass_id,
        "worker": worker,
        "forced": forced,
        "may_run_concurrently": concurrent,
        "base": base,
    }
    conn.execute(_QUERIES["begin"], {**values, "policy": Jsonb(dict(policy))})
    return pass_id


def close_dead_passes(conn: Connection) -> int:
    """Close the rows of passes that died, of all tables; how many."""
    return conn.execute(_QUERIES["close_dead"]).rowcount


def bounds_record(bounds: Bounds) -> dict[str, Any]:
    """The bounds as they are kept and shown: files by their number."""
    return {
        "floor_snapshot": bounds.floor_snapshot,
        "floor_holder": bounds.floor_holder,
        "protected_snapshots": {str(snapshot): holder for snapshot, holder in bounds.protected.items()},
        "protected_files": len(bounds.metadata_files) + len(bounds.staged_files),
    }


def note_bounds(conn: Connection, pass_id: uuid.UUID, bounds: Bounds) -> None:
    conn.execute(_QUERIES["note_bounds"], {"op_id": pass_id, "bounds": Jsonb(bounds_record(bounds))})


def note_progress(conn: Connection, pass_id: uuid.UUID, progress: str) -> None:
    conn.execute(_QUERIES["note_progress"], {"op_id": pass_id, "progress": progress})


def finish_pass(
    conn: Connection,
    pass_id: uuid.UUID,
    outcomes: Sequence[Outcome],
    *,
    counters: Mapping[str, int],
    sentence: str,
    error: str | None,
) -> None:
    """Close the row; a pass in which something failed is abandoned, though what its other operations did stays."""
    values = {
        "op_id": pass_id,
        "phase": "published" if error is None else "abandoned",
        "outcomes": Jsonb([{**asdict(outcome), "details": list(outcome.details)[:200]} for outcome in outcomes]),
        "counters": Jsonb(dict(counters)),
        "message": sentence,
        "error": error,
    }
    conn.execute(_QUERIES["finish"], values)


def read_last_done(conn: Connection, owner: Owner, operation: Operation) -> datetime | None:
    """When the operation last changed something."""
    cursor = conn.cursor(row_factory=scalar_row)
    done_at: datetime | None = cursor.execute(
        _QUERIES["last_done"], {**owner.values(), "operation": operation}
    ).fetchone()
    return done_at


def read_last_passes(conn: Connection, owner: Owner, limit: int = 10) -> tuple[PassLine, ...]:
    cursor = conn.cursor(row_factory=class_row(PassLine))
    return tuple(cursor.execute(_QUERIES["last_passes"], {**owner.values(), "limit": limit}))


def read_statuses(conn: Connection, owner: Owner) -> tuple[OperationStatus, ...]:
    return tuple(conn.cursor(row_factory=class_row(OperationStatus)).execute(_QUERIES["status"], owner.values()))


def prune_passes(conn: Connection, owner: Owner, days: int) -> int:
    """Forget what is older, never the last pass; how many rows went."""
    return conn.execute(_QUERIES["prune"], {**owner.values(), "days": days}).rowcount
