"""The journal of lake changes: who may write a table, which ops began, which were published.

Three rules make every op safe against kills and against writers that were presumed dead:

1. *Claim*: a writer raises `cutline.fence` and works under that fencing token. Every later write of the journal and of
   the cut-line checks the token, so a writer that another one overtook can publish nothing.
2. *Read the head, then write the intent*: the writer reads the lake's head before it writes the intent row, and commits
   onto exactly that head. A successor that finds the intent first fences the lake (moves its metadata), so the commit
   of the overtaken writer fails.
3. *Publish*: T, S, the states of partitions, the marks in the delta, the staged files and the phase of the op change in
   one transaction. T passes a partition only if it is still attached to the heap and its capture was uninterrupted
   since it was sealed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.catalog.pauses import read_paused_since
from thermocline.catalog.safety import Owner
from thermocline.core.observation import CutLine
from thermocline.core.op import kind_named
from thermocline.errors import AnotherWriter, Fenced, LockNotGranted, PartitionGone, Paused
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/journal.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A lake change in progress: its id, its table, the fencing token it began under, and the T it will publish."""

    op_id: uuid.UUID
    table_id: int
    kind: str
    fence: int
    t: int
    base: int | None


@contextmanager
def table_lock(conn: Connection, table_id: int, name: str, *, even_copied: bool = False) -> Iterator[None]:
    """Hold the advisory lock of a table's writer. It ends with the connection, so a killed writer frees the table at
    once.

    Give `even_copied` in a copied database for work that does not change the lake.
    """
    if not even_copied:
        check_may_change_lakes(conn)
    if conn.execute(_QUERIES["try_lock"], {"table_id": table_id}).fetchone() != (True,):
        raise AnotherWriter(f"Another process is working on {name}.")
    try:
        yield
    finally:
        if not conn.closed and not conn.broken:
            conn.execute(_QUERIES["unlock"], {"table_id": table_id})


def claim(conn: Connection, table_id: int, *, even_paused: bool = False) -> CutLine:
    """Raise the fencing token: no earlier claimant can publish from now on. Refuses a paused table."""
    if not even_paused:
        check_not_paused(conn, table_id)
    return _cutline(conn, "claim", table_id)


def check_not_paused(conn: Connection, table_id: int) -> None:
    if (since := read_paused_since(conn, table_id)) is not None:
        raise Paused(f"The table is paused since {since:%Y-%m-%d %H:%M:%S}; nothing of it moves.")


def read_cutline(conn: Connection, table_id: int) -> CutLine:
    return _cutline(conn, "cutline", table_id)


def _cutline(conn: Connection, query: str, table_id: int) -> CutLine:
    cursor = conn.cursor(row_factory=class_row(CutLine))
    if (cutline := cursor.execute(_QUERIES[query], {"table_id": table_id}).fetchone()) is None:
        raise Fenced("The table was unregistered meanwhile.")
    return cutline


def raise_seam_line(conn: Connection, table_id: int, fence: int, line: int) -> None:
    """Record the literal that the seam was rebuilt with, in the transaction that rebuilt it."""
    done = conn.execute(_QUERIES["raise_seam_line"], {"table_id": table_id, "fence": fence, "line": line})
    _check_ours(done.rowcount)


def raise_seam_floor(conn: Connection, table_id: int, fence: int, floor: int) -> None:
    """Record the lower literal of the seam's heap arm, in the transaction that rebuilt it."""
    done = conn.execute(_QUERIES["raise_seam_floor"], {"table_id": table_id, "fence": fence, "floor": floor})
    _check_ours(done.rowcount)


def begin(conn: Connection, op: Op, worker: str) -> None:
    """Write the intent. The writer read the head that the op will commit onto before this."""
    done = conn.execute(
        _QUERIES["insert_intent"],
        {
            "op_id": op.op_id,
            "table_id": op.table_id,
            "kind": op.kind,
            "t": op.t,
            "fence": op.fence,
            "base": op.base,
            "worker": worker,
        },
    )
    _check_ours(done.rowcount)


def note_phase(
    conn: Connection, op: Op, phase: str, *, snapshot: int | None = None, counters: Mapping[str, object] | None = None
) -> None:
    done = conn.execute(
        _QUERIES["note_phase"],
        {
            "op_id": op.op_id,
            "fence": op.fence,
            "phase": phase,
            "snapshot": snapshot,
            "counters": Jsonb(dict(counters or {})),
        },
    )
    _check_ours(done.rowcount)


def read_unfinished(conn: Connection, table_id: int, fence: int) -> tuple[Op, ...]:
    """Ops that an earlier writer began and did not finish, under our fencing token."""
    rows = rows_by_name(conn).execute(_QUERIES["unfinished"], {"table_id": table_id})
    return tuple(
        Op(op_id=row.op_id, table_id=table_id, kind=row.kind, fence=fence, t=row.t, base=row.base_snapshot)
        for row in rows
    )


def publish(
    conn: Connection,
    op: Op,
    *,
    snapshot: int | None,
    paths: Sequence[str],
    counters: Mapping[str, object],
    message: str,
    lock: Callable[[], object] = lambda: None,
    mark: Callable[[], object] = lambda: None,
) -> tuple[str, ...]:
    """Move T and S with everything that depends on them, in one transaction; returns the names of the partitions that
    are tiered now.

    `lock` runs first in the transaction. `mark` runs once the fencing token was checked: a fold marks there the rows
    that it folded.
    """
    kind = kind_named(op.kind)
    with conn.transaction():
        lock()
        if kind.moves_t:
            _hold_partitions(conn, op)
        values = {
            "table_id": op.table_id,
            "op_id": op.op_id,
            "t": op.t,
            "s": snapshot if snapshot is not None else op.base,
        }
        values |= {
            "fence": op.fence,
            "base": op.base,
            "paths": list(paths),
            "counters": Jsonb(dict(counters)),
            "message": message,
        }
        if kind.moves_t:
            conn.execute(_QUERIES["clear_stale"], values)
        _check_ours(conn.execute(_QUERIES["publish_cutline"], values).rowcount)
        if snapshot is not None and snapshot != op.base:
            conn.execute(_QUERIES["publish_supersede"], values)
            conn.execute(_QUERIES["publish_snapshot"], values)
        if kind.folds:
            conn.execute(_QUERIES["publish_folding"], values)
        mark()
        tiered = tuple(
            row.name for row in rows_by_name(conn).execute(_QUERIES["publish_partitions"], values).fetchall()
        )
        conn.execute(_QUERIES["publish_files"], values)
        _check_ours(conn.execute(_QUERIES["publish_op"], values).rowcount)
        return tiered


def check_seals(conn: Connection, table_id: int, t: int) -> None:
    """Refuse when a partition below the new T left the heap, or its capture was interrupted, since it was sealed."""
    row = rows_by_name(conn).execute(_QUERIES["broken_seal"], {"table_id": table_id, "t": t}).fetchone()
    if row is not None:
        raise PartitionGone(
            f"{row.partition} left the heap, or was not captured for a time, while it was on its way to the lake."
        )


def _hold_partitions(conn: Connection, op: Op) -> None:
    """Keep others from attaching or detaching partitions until the publication commits.

    Rows of a detached partition would come back with the lake's copy. Rows of an attached one would be below T, where
    no reader looks for them in the heap.
    """
    try:
        conn.execute(_QUERIES["hold_partitions"], {"table_id": op.table_id})
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as problem:
        raise LockNotGranted(
            "The lock to publish was not granted: somebody changes the table's partitions."
        ) from problem
    check_seals(conn, op.table_id, op.t)


def read_unpurged(conn: Connection, table_id: int) -> tuple[tuple[uuid.UUID, str], ...]:
    """Folds whose marked rows may still be in the delta, with the transaction that published each."""
    rows = rows_by_name(conn).execute(_QUERIES["unpurged"], {"table_id": table_id})
    return tuple((row.op_id, row.published_xid) for row in rows)


def note_purged(conn: Connection, op_id: uuid.UUID, fence: int) -> None:
    _check_ours(conn.execute(_QUERIES["note_purged"], {"op_id": op_id, "fence": fence}).rowcount)


def abandon(conn: Connection, op: Op, message: str) -> None:
    """Close an op that cannot commit any more; the janitor deletes its files."""
    conn.execute(_QUERIES["abandon"], {"op_id": op.op_id, "message": message})


def read_staging_owners(conn: Connection) -> tuple[Owner, ...]:
    """The tables with staged files that no commit references."""
    return tuple(conn.cursor(row_factory=class_row(Owner)).execute(_QUERIES["staging_owners"]))


def read_stray_files(conn: Connection, owner: Owner, grace_seconds: float, limit: int = 1000) -> tuple[str, ...]:
    """Staged files of finished ops that no commit references, past the grace period."""
    values = {**owner.values(), "grace_seconds": grace_seconds, "limit": limit}
    return tuple(row.path for row in rows_by_name(conn).execute(_QUERIES["stray_files"], values))


def forget_file(conn: Connection, path: str) -> None:
    conn.execute(_QUERIES["forget_file"], {"path": path})


def _check_ours(rows: int) -> None:
    if rows != 1:
        raise Fenced
