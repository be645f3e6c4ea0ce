"""Ops on the lake in the journal, as maintenance makes them: the files of a pass go over to the op that commits
them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from psycopg.rows import scalar_row
from psycopg.types.json import Jsonb

from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.errors import AnotherWriter
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/lake_ops.sql")


@contextmanager
def lake_lock(conn: Connection, lake_id: int, name: str, *, even_copied: bool = False) -> Iterator[None]:
    """One writer of ours per lake table at a time; the lock dies with the connection."""
    if not even_copied:
        check_may_change_lakes(conn)
    if conn.execute(_QUERIES["try_lock_lake"], {"lake_id": lake_id}).fetchone() != (True,):
        raise AnotherWriter(f"Another pass commits to {name}.")
    try:
        yield
    finally:
        if not conn.closed and not conn.broken:
            conn.execute(_QUERIES["unlock_lake"], {"lake_id": lake_id})


def take_over(conn: Connection, op_id: uuid.UUID, pass_id: uuid.UUID | None, paths: Sequence[str]) -> int:
    """Move staged files of the pass to the op, so that a pass that dies leaves them to whoever settles the op; how many
    there were."""
    return conn.execute(_QUERIES["take_over"], {"op_id": op_id, "pass_id": pass_id, "paths": list(paths)}).rowcount


def begin_lake_op(
    conn: Connection,
    op_id: uuid.UUID,
    lake_id: int,
    kind: str,
    *,
    base: int | None,
    worker: str,
    pass_id: uuid.UUID | None,
) -> None:
    """The intent of an op on a table that Postgres does not know."""
    values = {"op_id": op_id, "lake_id": lake_id, "kind": kind, "base": base, "worker": worker, "pass_id": pass_id}
    conn.execute(_QUERIES["begin_lake_op"], values)


def read_unfinished_lake_ops(conn: Connection, lake_id: int) -> tuple[uuid.UUID, ...]:
    return tuple(conn.cursor(row_factory=scalar_row).execute(_QUERIES["unfinished_lake_ops"], {"lake_id": lake_id}))


def finish_lake_op(
    conn: Connection,
    op_id: uuid.UUID,
    *,
    snapshot: int | None,
    paths: Sequence[str] = (),
    counters: Mapping[str, object],
    message: str,
) -> None:
    """Close an op: with a snapshot it is in the lake and its files are the table's; without one they are the
    janitor's."""
    with conn.transaction():
        conn.execute(_QUERIES["unstage"], {"op_id": op_id, "paths": list(paths)})
        values = {"op_id": op_id, "phase": "abandoned" if snapshot is None else "published", "snapshot": snapshot}
        conn.execute(_QUERIES["finish_lake_op"], {**values, "counters": Jsonb(dict(counters)), "message": message})
