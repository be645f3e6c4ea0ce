"""The heap's partitions: found, sealed, captured and, at the end, dropped.

Every lock on the user's table is taken under a lock timeout and given up when it is not granted, so that no statement
of ours ever queues in front of the application's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import psycopg
from psycopg import sql

from thermocline.core.axis import AXIS_MAX, KeyType
from thermocline.core.names import TableName
from thermocline.core.observation import PartitionObservation, PartitionState
from thermocline.core.types import MICROSECONDS_PER_DAY
from thermocline.errors import LockNotGranted, PartitionGone
from thermocline.runtime.pg import Connection, table_identifier
from thermocline.seam.heap.facts import HeapPartition
from thermocline.seam.objects import CAPTURE_TRIGGER, SeamDefinition, apply_capture
from thermocline.seam.render import Templates, axis_value
from thermocline.seam.truncation import apply_truncate_capture

_QUERIES = Templates.load("partitions.sql")


@contextmanager
def short_locks(conn: Connection, lock_timeout_ms: int, relids: Sequence[int], what: str) -> Iterator[None]:
    """A transaction whose locks are had soon or not at all; the refusal names who holds them."""
    try:
        with conn.transaction():
            # By SET, which takes no snapshot: the locks may be wanted ahead of it.
            conn.execute(sql.SQL("set local lock_timeout = {}").format(sql.Literal(f"{lock_timeout_ms}ms")))
            yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as problem:
        blocker = read_blocker(conn, relids)
        holder = f"; {blocker} holds it" if blocker else ""
        raise LockNotGranted(f"The lock to {what} was not granted within {lock_timeout_ms} ms{holder}.") from problem


def read_blocker(conn: Connection, relids: Sequence[int]) -> str | None:
    """Who holds a lock on one of these relations."""
    row = conn.execute(_QUERIES["blockers"], {"relids": list(relids)}).fetchone()
    return str(row[0]) if row else None


def apply_discovery(conn: Connection, table_id: int, partitions: Sequence[HeapPartition]) -> dict[int, PartitionState]:
    """Record partitions made, removed or attached elsewhere by others; the state of each that exists."""
    with conn.transaction():
        places = {"los": [p.lo for p in partitions], "his": [p.hi for p in partitions]}
        conn.execute(_QUERIES["forget_moved"], {"table_id": table_id, "relids": [p.oid for p in partitions], **places})
        for partition in partitions:
            conn.execute(
                _QUERIES["discover"],
                {
                    "table_id": table_id,
                    "schema": partition.name.schema,
                    "name": partition.name.table,
                    "relid": partition.oid,
                    "lo": partition.lo,
                    "hi": partition.hi,
                },
            )
        conn.execute(_QUERIES["forget_vanished"], {"table_id": table_id, "relids": [p.oid for p in partitions]})
        return dict(conn.execute(_QUERIES["known"], {"table_id": table_id}).fetchall())


def read_partition_observations(
    conn: Connection, partitions: Sequence[HeapPartition], states: dict[int, PartitionState], t: int
) -> tuple[PartitionObservation, ...]:
    """Each partition with its state and size; those above T with whether they hold a row."""
    seen = []
    for partition in partitions:
        size = conn.execute(_QUERIES["size"], {"relid": partition.oid}).fetchone()
        size_bytes = int(size[0]) if size and size[0] is not None else 0
        seen.append(
            PartitionObservation(
                oid=partition.oid,
                name=partition.name,
                lo=partition.lo,
                hi=partition.hi,
                state=states[partition.oid],
                size_bytes=size_bytes,
                is_empty=size_bytes == 0 or (partition.hi > t and not _has_rows(conn, partition.name)),
                is_permanent=partition.is_permanent,
            )
        )
    return tuple(seen)


def read_passed(
    conn: Connection,
    seam: SeamDefinition,
    partitions: Sequence[PartitionObservation],
    tiering_lag: int,
    ceiling: int | None,
) -> tuple[PartitionObservation, ...]:
    """The partitions with whether the table's rows have moved on past them by the tiering lag.

    Rows at or above the ceiling are not believed; without one all are. No place on the axis means "no ceiling": a row
    may have the last key there is.
    """
    seen = []
    is_behind = True
    for partition in partitions:
        # Bounds ascend: once no row lies beyond one of them, none lies beyond the next.
        is_behind = is_behind and _has_row_within(conn, seam, partition.hi + tiering_lag, ceiling)
        seen.append(replace(partition, is_behind_tiering=is_behind))
    return tuple(seen)


def read_reclaimable(
    conn: Connection,
    seam: SeamDefinition,
    partitions: Sequence[PartitionObservation],
    reclaim_lag: int,
    ceiling: int | None,
) -> tuple[PartitionObservation, ...]:
    """The partitions with whether the reclaim lag has passed since each was moved: by the clock, or with integer keys
    by the rows that came since."""
    moves = {row[0]: row[1:] for row in conn.execute(_QUERIES["moves"], {"table_id": seam.table_id})}
    passed: dict[int, bool] = {}

    def has_passed(partition: PartitionObservation, microseconds: int | None, moved_key: int | None) -> bool:
        if not seam.key_type.is_integer:
            lag_microseconds = reclaim_lag * MICROSECONDS_PER_DAY // seam.key_type.units_per_day
            return microseconds is not None and microseconds >= lag_microseconds
        if reclaim_lag == 0:
            return True
        # One that was made below the cut-line was captured, not moved: its upper bound counts.
        start = partition.hi if moved_key is None else moved_key
        if start not in passed:
            passed[start] = _has_row_within(conn, seam, start + reclaim_lag, ceiling)
        return passed[start]

    return tuple(
        replace(partition, is_reclaimable=has_passed(partition, *moves[partition.oid]))
        if partition.oid in moves
        else partition
        for partition in partitions
    )


def read_newest_key(
    conn: Connection, seam: SeamDefinition, partitions: Sequence[PartitionObservation], ceiling: int | None
) -> int | None:
    """The highest key below the ceiling. Only partitions at the top are looked into, down to the first with such a
    row."""
    key = sql.Identifier("h", seam.tier_key)
    for partition in reversed(partitions):
        if ceiling is not None and partition.lo >= ceiling:
            continue
        conditions = [sql.SQL("{} >= {}").format(key, axis_value(seam.key_type, partition.lo))]
        if ceiling is not None:
            conditions.append(sql.SQL("{} < {}").format(key, axis_value(seam.key_type, ceiling)))
        query = _QUERIES.render("newest_key", seam, conditions=sql.SQL(" and ").join(conditions))
        row = conn.execute(query).fetchone()
        if row is not None and row[0] is not None:
            return int(row[0])
    return None


def note_moved_key(conn: Connection, table_id: int, relids: Sequence[int], key: int | None) -> None:
    """Note the newest row at the time of a move: with integer keys the reclaim lag counts from it."""
    conn.execute(_QUERIES["set_moved_key"], {"table_id": table_id, "relids": list(relids), "key": key})


def read_lowest_key_above(conn: Connection, seam: SeamDefinition, bound: int) -> int | None:
    """The lowest key at or above a bound that no partition reaches."""
    if bound >= AXIS_MAX:
        return None
    row = conn.execute(_QUERIES.render("lowest_beyond", seam, bound=axis_value(seam.key_type, bound))).fetchone()
    return row[0] if row else None


def read_now(conn: Connection, key_type: KeyType) -> int | None:
    """Postgres' clock on the axis of the key; None where keys tell no time.

    A key without a time zone is somebody's wall clock, we do not know whose: now is what the last clock on earth
    (UTC-12) shows, so that no row anybody writes at this moment lies in the past.
    """
    if key_type.is_integer:
        return None
    row = conn.execute(_QUERIES[f"clock_of_{key_type.column_type.typname}"]).fetchone()
    assert row is not None
    return int(row[0])


def _has_rows(conn: Connection, partition: TableName) -> bool:
    name = table_identifier(partition)
    return conn.execute(sql.SQL("select exists (select 1 from only {})").format(name)).fetchone() == (True,)


def _has_row_within(conn: Connection, seam: SeamDefinition, at: int, ceiling: int | None) -> bool:
    if at >= AXIS_MAX or (ceiling is not None and at >= ceiling) or (seam.key_type is KeyType.DATE and at > 2**31 - 1):
        return False
    key = sql.Identifier("h", seam.tier_key)
    conditions = [sql.SQL("{} >= {}").format(key, axis_value(seam.key_type, at))]
    if ceiling is not None:
        conditions.append(sql.SQL("{} < {}").format(key, axis_value(seam.key_type, ceiling)))
    statement = sql.SQL("select exists (select 1 from {heap} h where {conditions})").format(
        heap=table_identifier(seam.objects.heap),
        conditions=sql.SQL(" and ").join(conditions),
    )
    return conn.execute(statement).fetchone() == (True,)


def apply_seal(
    conn: Connection, seam: SeamDefinition, partition: PartitionObservation, t: int, lock_timeout_ms: int
) -> None:
    """Seal: from the commit of this transaction on, every change in the partition is captured, and nothing stale is in
    the delta for it.

    The trigger's lock waits out every writer in flight, so what they wrote is committed and the copy's snapshot, taken
    later, sees it. Corrections at or above T are hidden; those in this range come from an abandoned seal or from rows
    that passed through the spill, and would hide newer rows once T has passed them.
    """
    with short_locks(conn, lock_timeout_ms, [partition.oid], f"seal {partition.name}"):
        try:
            apply_capture(conn, seam.objects, partition.name)
        except psycopg.errors.UndefinedTable as problem:
            raise PartitionGone(
                f"{partition.name} was dropped before it was sealed; the next cycle looks again."
            ) from problem
        apply_truncate_capture(conn, seam.objects, partition.name)
        where = {
            "table_id": seam.table_id,
            "relid": partition.oid,
            "name": str(partition.name),
            "trigger": CAPTURE_TRIGGER,
        }
        if conn.execute(_QUERIES["note_seal"], where).rowcount != 1:
            raise PartitionGone(
                f"{partition.name} left {seam.objects.heap} before it was sealed; the next cycle looks again."
            )
        conn.execute(
            sql.SQL("delete from {} d where d.{key} >= {} and d.{key} < {}").format(
                table_identifier(seam.objects.delta),
                axis_value(seam.key_type, max(t, partition.lo)),
                axis_value(seam.key_type, partition.hi),
                key=sql.Identifier(seam.tier_key),
            )
        )
        apply_state(conn, seam.table_id, [partition.oid], "sealing" if partition.state == "hot" else partition.state)


def capture_late_partition(
    conn: Connection, table_id: int, partition: PartitionObservation, lock_timeout_ms: int
) -> int:
    """A partition made below the cut-line: carry its rows into the delta, where readers look for them, and capture what
    comes.

    Rows below the retention line stay expired: they are not carried.
    """
    with short_locks(conn, lock_timeout_ms, [partition.oid], f"capture {partition.name}"):
        row = conn.execute("select thermocline.capture_partition(%s, %s)", [table_id, partition.oid]).fetchone()
        assert row is not None
        if partition.hi <= _cut(conn, table_id):
            conn.execute(_QUERIES["set_tiered"], {"table_id": table_id, "relid": partition.oid})
        return int(row[0])


def _cut(conn: Connection, table_id: int) -> int:
    row = conn.execute("select t from thermocline.cutline where table_id = %s", [table_id]).fetchone()
    assert row is not None
    return int(row[0])


def apply_state(conn: Connection, table_id: int, relids: Sequence[int], state: PartitionState) -> None:
    conn.execute(_QUERIES["set_state"], {"table_id": table_id, "relids": list(relids), "state": state})


def apply_rows(conn: Connection, table_id: int, relid: int, rows: int) -> None:
    conn.execute(_QUERIES["set_rows"], {"table_id": table_id, "relid": relid, "rows": rows})


def apply_drop(
    conn: Connection,
    heap: TableName,
    heap_oid: int,
    table_id: int,
    partition: PartitionObservation,
    lock_timeout_ms: int,
) -> None:
    """Detach and drop; the capture trigger stays to the end, so nothing can be written past the lake."""
    with short_locks(conn, lock_timeout_ms, [heap_oid, partition.oid], f"drop {partition.name}"):
        name = table_identifier(partition.name)
        conn.execute(sql.SQL("lock table only {} in access exclusive mode").format(table_identifier(heap)))
        where = {"table_id": table_id, "relid": partition.oid, "name": str(partition.name), "lo": partition.lo}
        if conn.execute(_QUERIES["is_still_it"], where).fetchone() != (True,):
            raise PartitionGone(f"{partition.name} is another partition by now; the next cycle looks again.")
        conn.execute(sql.SQL("alter table {} detach partition {}").format(table_identifier(heap), name))
        conn.execute(sql.SQL("drop table {}").format(name))
        apply_state(conn, table_id, [partition.oid], "dropped")
