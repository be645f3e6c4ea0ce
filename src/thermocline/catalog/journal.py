"""The journal of lake changes: who may write a table, what was begun, what was published.

Three facts make every op safe against kills and against writers that were given up for dead:

1. *Claim*: a writer raises `cutline.fence` and works under that token. Every later write of the journal and of the
   cut-line checks the token, so whoever was overtaken can publish nothing.
2. *Look, then intent*: the lake's head is looked at before the intent row is written, and the commit goes exactly onto
   that head. A successor that finds the intent first fences the lake (moves its metadata), so the overtaken writer's
   commit can no longer land.
3. *Publish*: T, S, the partitions' states, the delta's marks, the staged files and the op's phase change in one
   transaction. T passes a partition only while it is still the heap's and was captured without a break since it was
   sealed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.types.json import Jsonb

from thermocline.catalog.database_identity import check_home
from thermocline.catalog.pauses import read_paused_since
from thermocline.catalog.safety import Owner
from thermocline.core.observation import CutLine
from thermocline.core.op import kind_named
from thermocline.errors import AnotherWriter, Fenced, LockNotGranted, PartitionGone, Paused
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/journal.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A lake change under way: its id, its table, the token it was begun under, and what it will publish."""

    op_id: uuid.UUID
    table_id: int
    kind: str
    fence: int
    t: int
    base: int | None


@contextmanager
def table_lock(conn: Connection, table_id: int, name: str, *, even_copied: bool = False) -> Iterator[None]:
    """One writer per table at a time. The lock dies with the connection, so a killed writer frees the table at once.

    In a copy of the database only for what leaves the lake as it is.
    """
    if not even_copied:
        check_home(conn)
    if conn.execute(_QUERIES["try_lock"], {"table_id": table_id}).fetchone() != (True,):
        raise AnotherWriter(f"Another process is working on {name}.")
    try:
        yield
    finally:
        if not conn.closed and not conn.broken:
            conn.execute(_QUERIES["unlock"], {"table_id": table_id})


def claim(conn: Connection, table_id: int, *, even_paused: bool = False) -> CutLine:
    """Take the table over: everybody who claimed it before can publish nothing from now on. A paused table is not to be
    taken."""
    if not even_paused and (since := read_paused_since(conn, table_id)) is not None:
        raise Paused(f"The table is paused since {since:%Y-%m-%d %H:%M:%S}; nothing of it moves.")
    return _cutline(conn, "claim", table_id)


def read_cutline(conn: Connection, table_id: int) -> CutLine:
    return _cutline(conn, "cutline", table_id)


def _cutline(conn: Connection, query: str, table_id: int) -> CutLine:
    row = conn.execute(_QUERIES[query], {"table_id": table_id}).fetchone()
    if row is None:
        raise Fenced("The table was unregistered meanwhile.")
    return CutLine(t=row[0], s=row[1], seam_line=row[2], fence=row[3], r=row[4])


def raise_seam_line(conn: Connection, table_id: int, fence: int, line: int) -> None:
    """Note the literal the seam was rebuilt with, in the transaction that rebuilt it."""
    done = conn.execute(_QUERIES["raise_seam_line"], {"table_id": table_id, "fence": fence, "line": line})
    _check_ours(done.rowcount)


def raise_seam_floor(conn: Connection, table_id: int, fence: int, floor: int) -> None:
    """Note the floor of the seam's heap arm, in the transaction that rebuilt it."""
    done = conn.execute(_QUERIES["raise_seam_floor"], {"table_id": table_id, "fence": fence, "floor": floor})
    _check_ours(done.rowcount)


def begin(conn: Connection, op: Op, worker: str) -> None:
    """Write the intent. The head the op will commit on was looked at before this."""
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
    """Ops that somebody began and did not finish, now under our token."""
    rows = conn.execute(_QUERIES["unfinished"], {"table_id": table_id})
    return tuple(
        Op(op_id=op_id, table_id=table_id, kind=kind, fence=fence, t=t, base=base) for op_id, kind, t, base in rows
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
    """Move T and S together with all that depends on them; the names of the partitions that are tiered now. One
    transaction.

    `lock` runs first in it; `mark` once the token was found to be ours: a fold marks there what it folded.
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
        tiered = tuple(row[1] for row in conn.execute(_QUERIES["publish_partitions"], values).fetchall())
        conn.execute(_QUERIES["publish_files"], values)
        _check_ours(conn.execute(_QUERIES["publish_op"], values).rowcount)
        return tiered


def check_seals(conn: Connection, table_id: int, t: int) -> None:
    """Refuse to go on when a partition below the new T left the heap, or was let out of capture, since it was
    sealed."""
    if (row := conn.execute(_QUERIES["broken_seal"], {"table_id": table_id, "t": t}).fetchone()) is not None:
        raise PartitionGone(
            f"{row[0]} left the heap, or was not captured for a time, while it was on its way to the lake."
        )


def _hold_partitions(conn: Connection, op: Op) -> None:
    """Nobody takes a partition away or brings one between this look and the publication's commit.

    What a partition that left took along would come back with the lake's copy; what one brought would lie below T,
    unseen.
    """
    try:
        conn.execute(_QUERIES["hold_partitions"], {"table_id": op.table_id})
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as problem:
        raise LockNotGranted(
            "The lock to publish was not granted: somebody changes the table's partitions."
        ) from problem
    check_seals(conn, op.table_id, op.t)


def read_unpurged(conn: Connection, table_id: int) -> tuple[tuple[uuid.UUID, str], ...]:
    """Folds whose marked rows may still be in the delta, each with the transaction that published it."""
    return tuple((op_id, xid) for op_id, xid in conn.execute(_QUERIES["unpurged"], {"table_id": table_id}))


def note_purged(conn: Connection, op_id: uuid.UUID, fence: int) -> None:
    _check_ours(conn.execute(_QUERIES["note_purged"], {"op_id": op_id, "fence": fence}).rowcount)


def abandon(conn: Connection, op: Op, message: str) -> None:
    """Close an op that is known never to commit; its files become the janitor's."""
    conn.execute(_QUERIES["abandon"], {"op_id": op.op_id, "message": message})


def read_staging_owners(conn: Connection) -> tuple[Owner, ...]:
    """The tables with files that no commit has taken up."""
    return tuple(
        Owner(table_id=table_id, lake_id=lake_id) for table_id, lake_id in conn.execute(_QUERIES["staging_owners"])
    )


def read_stray_files(conn: Connection, owner: Owner, grace_seconds: float, limit: int = 1000) -> tuple[str, ...]:
    """Files of a table's finished ops that no commit took up, past the grace period."""
    rows = conn.execute(_QUERIES["stray_files"], {**owner.values(), "grace_seconds": grace_seconds, "limit": limit})
    return tuple(row[0] for row in rows)


def forget_file(conn: Connection, path: str) -> None:
    conn.execute(_QUERIES["forget_file"], {"path": path})


def _check_ours(rows: int) -> None:
    if rows != 1:
        raise Fenced
