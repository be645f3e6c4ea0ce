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
from thermocline.core.names import MAX_IDENTIFIER_BYTES, TableName
from thermocline.core.plan.premake import Grid, NewPartition
from thermocline.errors import ChangedByTrigger
from thermocline.runtime.pg import Connection, load_queries
from thermocline.seam.heap_facts import HeapPartition
from thermocline.seam.objects import SeamDefinition, key_expression
from thermocline.seam.partitions import short_locks
from thermocline.seam.row_moves import check_arrived, check_count, quiet_triggers

REFUSED_BY_TRIGGERS = (
    ChangedByTrigger,
    psycopg.errors.RaiseException,
    psycopg.errors.TriggeredDataChangeViolation,
    psycopg.IntegrityError,
)
"""What comes back where a user's trigger, which fires for us, will not let rows move as they are."""

_QUERIES = load_queries("thermocline.seam", "queries/premake.sql")


def read_grid(
    conn: Connection, seam: SeamDefinition, partitions: Sequence[HeapPartition], t: int, width: int | None
) -> Grid:
    """The grid as it stands. Only partitions at the top are looked into, down to the first that holds a row."""
    ready = 0
    for partition in reversed(partitions):
        name = sql.Identifier(partition.name.schema, partition.name.table)
        if conn.execute(sql.SQL("select exists (select 1 from only {})").format(name)).fetchone() == (True,):
            break
        ready += 1
    beyond = None
    if partitions and partitions[-1].hi != AXIS_MAX:
        row = conn.execute(_filled(seam, "highest_beyond", bound=_key(seam, max(t, partitions[-1].hi)))).fetchone()
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
    ends = {"lo": _key(seam, new.lo), "hi": _key(seam, new.hi)}
    with short_locks(conn, lock_timeout_ms, [seam.heap.oid], f"make partition {new.name}"):
        for relation in (heap, spill):  # writers take them in this order too
            conn.execute(
                sql.SQL("lock table only {} in access exclusive mode").format(
                    sql.Identifier(relation.schema, relation.table)
                )
            )
        name = _free_name(conn, TableName(schema, new.name))
        partition = sql.Identifier(name.schema, name.table)
        waiting = conn.execute(_filled(seam, "spilled", **ends)).fetchone() == (True,)
        with quiet_triggers(conn) if waiting else nullcontext():
            held = conn.execute(_filled(seam, "hold", **ends)).rowcount if waiting else 0
            if waiting:
                conn.execute(_filled(seam, "take_out", **ends))
            literals = {"lo_literal": _literal(seam, new.lo), "hi_literal": _literal(seam, new.hi)}
            conn.execute(_filled(seam, "make", partition=partition, **literals))
            conn.execute(sql.SQL("alter table {} owner to {}").format(partition, sql.Identifier(seam.heap.owner)))
            if waiting:
                _put_in(conn, seam, partition, held)
        return name, held


def _put_in(conn: Connection, seam: SeamDefinition, partition: sql.Identifier, held: int) -> None:
    """Put the rows that were held into the partition made for them, all of them and as they are."""
    moved = sql.Identifier("pg_temp", "thermocline_moved")
    what = "wait in the spill for it"
    writable = [column.name for column in seam.heap.columns if not column.generated]
    conn.execute(
        _filled(
            seam, "put_in", partition=partition, writable=sql.SQL(", ").join(sql.Identifier(name) for name in writable)
        )
    )
    check_arrived(conn, seam, moved, partition, what)
    check_count(conn, partition, held, what)
    conn.execute(sql.SQL("drop table {}").format(moved))


def _free_name(conn: Connection, wished: TableName) -> TableName:
    number = 1
    name = wished.table.encode()[:MAX_IDENTIFIER_BYTES].decode(errors="ignore")
    query = (
        "select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s"
    )
    candidate = name
    while conn.execute(query, [wished.schema, candidate]).fetchone() is not None:
        number += 1
        tail = f"_{number}"
        candidate = name.encode()[: MAX_IDENTIFIER_BYTES - len(tail)].decode(errors="ignore") + tail
    return TableName(wished.schema, candidate)


def _key(seam: SeamDefinition, at: int) -> sql.Composed:
    return key_expression(seam.key_type, sql.Literal(str(at)))


def _literal(seam: SeamDefinition, at: int) -> sql.Literal:
    return sql.Literal(render_axis(seam.key_type, at))


def _filled(seam: SeamDefinition, query: str, **more: sql.Composable) -> sql.Composed:
    return sql.SQL(_QUERIES[query]).format(
        heap=sql.Identifier(seam.objects.heap.schema, seam.objects.heap.table),
        spill=sql.Identifier(seam.objects.spill.schema, seam.objects.spill.table),
        tier_key=sql.Identifier(seam.tier_key),
        **more,
    )
