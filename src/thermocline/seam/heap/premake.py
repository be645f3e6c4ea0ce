"""Partitions made ahead, and the rows that ran ahead of them carried from the spill into the partition made for them,
in one transaction.

What the spill's capture wrote for those rows lies in the delta at or above T: hidden, and cleared when their partition
is sealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import psycopg
from psycopg import sql

from thermocline.core.axis import AXIS_MAX, render_axis
from thermocline.core.names import TableName
from thermocline.core.plan.premake import Grid, NewPartition
from thermocline.errors import ChangedByTrigger
from thermocline.runtime.pg import Connection, table_identifier
from thermocline.seam.heap.facts import HeapPartition
from thermocline.seam.heap.free_names import free_name
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.heap.row_moves import check_count, check_rows_arrived, user_triggers_silenced
from thermocline.seam.objects import SeamDefinition
from thermocline.seam.render import Templates, axis_value

REFUSED_BY_TRIGGERS = (
    ChangedByTrigger,
    psycopg.errors.RaiseException,
    psycopg.errors.TriggeredDataChangeViolation,
    psycopg.IntegrityError,
)
"""What comes back where a user's trigger, which fires for us, will not let rows move as they are."""

_QUERIES = Templates.load("premake.sql")


def read_grid(
    conn: Connection, seam: SeamDefinition, partitions: Sequence[HeapPartition], t: int, width: int | None
) -> Grid:
    """The grid as it stands. Only partitions at the top are looked into, down to the first that holds a row."""
    ready = 0
    for partition in reversed(partitions):
        name = table_identifier(partition.name)
        if conn.execute(sql.SQL("select exists (select 1 from only {})").format(name)).fetchone() == (True,):
            break
        ready += 1
    beyond = None
    if partitions and partitions[-1].hi != AXIS_MAX:
        row = conn.execute(
            _QUERIES.render("highest_beyond", seam, bound=axis_value(seam.key_type, max(t, partitions[-1].hi)))
        ).fetchone()
        beyond = row[0] if row else None
    zone = conn.execute(_QUERIES["zone"]).fetchone()
    return Grid(
        table=seam.objects.heap.table,
        key_type=seam.key_type,
        bounds=tuple((p.name.table, p.lo, p.hi) for p in partitions),
        t=t,
        ready=ready,
        highest_beyond=beyond,
        width=width,
        zone=str(zone[0]) if zone else "UTC",
    )


def apply_premake(
    conn: Connection, seam: SeamDefinition, new: NewPartition, schema: str, lock_timeout_ms: int
) -> tuple[TableName, int]:
    """Make one partition and move the rows that wait for it; its name and how many they were."""
    heap, spill = seam.objects.heap, seam.objects.spill
    ends = {"lo": axis_value(seam.key_type, new.lo), "hi": axis_value(seam.key_type, new.hi)}
    with short_locks(conn, lock_timeout_ms, [seam.heap.oid], f"make partition {new.name}"):
        for relation in (heap, spill):  # writers take them in this order too
            conn.execute(sql.SQL("lock table only {} in access exclusive mode").format(table_identifier(relation)))
        name = free_name(conn, TableName(schema, new.name))
        partition = table_identifier(name)
        waiting = conn.execute(_QUERIES.render("spilled", seam, **ends)).fetchone() == (True,)
        with user_triggers_silenced(conn) if waiting else nullcontext():
            held = conn.execute(_QUERIES.render("hold", seam, **ends)).rowcount if waiting else 0
            if waiting:
                conn.execute(_QUERIES.render("take_out", seam, **ends))
            literals = {"lo_literal": _literal(seam, new.lo), "hi_literal": _literal(seam, new.hi)}
            conn.execute(_QUERIES.render("make", seam, partition=partition, **literals))
            conn.execute(sql.SQL("alter table {} owner to {}").format(partition, sql.Identifier(seam.heap.owner)))
            if waiting:
                _put_in(conn, seam, partition, held)
        return name, held


def _put_in(conn: Connection, seam: SeamDefinition, partition: sql.Identifier, held: int) -> None:
    """Put the rows that were held into the partition made for them, all of them and as they are."""
    moved = sql.Identifier("pg_temp", "thermocline_moved")
    what = "wait in the spill for it"
    conn.execute(_QUERIES.render("put_in", seam, partition=partition))
    check_rows_arrived(conn, seam, moved, partition, what)
    check_count(conn, partition, held, what)
    conn.execute(sql.SQL("drop table {}").format(moved))


def _literal(seam: SeamDefinition, at: int) -> sql.Literal:
    return sql.Literal(render_axis(seam.key_type, at))
