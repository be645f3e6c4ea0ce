"""History on its way back into the heap: tables of our own that are filled one by one and become partitions in one
transaction.

Until that transaction they are nobody's: readers and writers go on over the seam, and what is written meanwhile waits
in the delta, which is applied at the end. So whatever is killed, the lake and the delta are the truth and a filled
table is either used or filled again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from thermocline.core.axis import AXIS_MIN, render_axis
from thermocline.core.names import TableName
from thermocline.core.plan.restore import HistoryPartition, Presence, RestoreRange
from thermocline.runtime.pg import Connection, rows_by_name, table_identifier
from thermocline.seam.heap.free_names import free_name
from thermocline.seam.heap.row_moves import (
    check_count,
    check_rows_arrived,
    check_rows_left,
    copy_lacking_rows,
    count_rows,
    user_triggers_silenced,
)
from thermocline.seam.objects import SeamDefinition
from thermocline.seam.render import Templates, key_between

_QUERIES = Templates.load("restore.sql")
_PLACE = "thermocline_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledRange:
    """A range whose rows are in a table of ours, as lake and delta held them; `is_current` while nothing was published
    since, so that only corrections that wait in the delta are missing in it."""

    lo: int
    hi: int
    table: TableName
    rows: int
    is_current: bool = True


def read_history_partitions(conn: Connection, table_id: int, t: int) -> tuple[HistoryPartition, ...]:
    """Every partition below T there was, and how much of it the heap has."""
    found = []
    for row in rows_by_name(conn).execute(_QUERIES["partitions_below"], {"table_id": table_id, "t": t}):
        presence: Presence = "gone" if not row.is_attached else "whole" if row.is_whole else "partial"
        name = TableName(row.schema_name, row.name)
        found.append(HistoryPartition(name=name, lo=row.lo, hi=row.hi, presence=presence))
    return tuple(found)


def read_filled(conn: Connection, table_id: int) -> tuple[FilledRange, ...]:
    return tuple(
        FilledRange(
            lo=row.lo, hi=row.hi, table=TableName(row.schema_name, row.name), rows=row.rows, is_current=row.is_current
        )
        for row in rows_by_name(conn).execute(_QUERIES["filled"], {"table_id": table_id})
    )


def drop_filled(conn: Connection, table_id: int, filled: FilledRange) -> None:
    """Give a filled table up: what it holds is in the lake and the delta."""
    with conn.transaction():
        conn.execute(sql.SQL("drop table if exists {}").format(table_identifier(filled.table)))
        conn.execute(_QUERIES["forget"], {"table_id": table_id, "lo": filled.lo})


def has_rows(conn: Connection, seam: SeamDefinition, part: RestoreRange) -> bool:
    """Whether readers see a row in the range, or one that they would see is deleted by a correction."""
    return conn.execute(
        _QUERIES.render("has_rows", seam, condition=key_between(seam, part.lo, part.hi, "s"))
    ).fetchone() == (True,)


def count_lacking(conn: Connection, seam: SeamDefinition, part: RestoreRange) -> int:
    """How many rows readers see in the range that the heap does not have."""
    row = conn.execute(_QUERIES.render("lacking", seam, condition=key_between(seam, part.lo, part.hi, "s"))).fetchone()
    assert row is not None
    return int(row[0])


def fill(conn: Connection, seam: SeamDefinition, part: RestoreRange, snapshot: int) -> FilledRange:
    """Make a table like the heap and fill it with what readers see of the range, in the caller's transaction."""
    table = free_name(conn, TableName(_PLACE, part.name.table))
    places = {"filled": table_identifier(table)}
    conn.execute(_QUERIES.render("make", seam, **places))
    conn.execute(sql.SQL("alter table {} owner to {}").format(table_identifier(table), sql.Identifier(seam.heap.owner)))
    rows = conn.execute(
        _QUERIES.render("fill", seam, condition=key_between(seam, part.lo, part.hi, "s"), **places)
    ).rowcount
    # With this, attaching reads no row.
    conn.execute(_QUERIES.render("bounded", seam, condition=key_between(seam, part.lo, part.hi), **places))
    where = {"table_id": seam.table_id, "lo": part.lo, "hi": part.hi, "snapshot": snapshot, "rows": rows}
    conn.execute(_QUERIES["note"], where | {"schema": table.schema, "name": table.table})
    return FilledRange(lo=part.lo, hi=part.hi, table=table, rows=rows)


def hold_pending(conn: Connection, seam: SeamDefinition, ranges: Sequence[RestoreRange]) -> None:
    """Keep the corrections that wait in these ranges, for the rest of the transaction that drops the delta."""
    conditions = [key_between(seam, part.lo, part.hi, "d") for part in ranges]
    conn.execute(
        _QUERIES.render(
            "hold_pending", seam, condition=sql.SQL(" or ").join(conditions) if conditions else sql.SQL("false")
        )
    )
    conn.execute(_QUERIES.render("index_pending", seam))


def note_partition(conn: Connection, seam: SeamDefinition, part: RestoreRange, filled: FilledRange) -> None:
    """Write down that the heap has the range whole, for whoever takes the lake up again."""
    where = {"table_id": seam.table_id, "lo": part.lo, "hi": part.hi, "rows": filled.rows, "filled": str(filled.table)}
    where |= {"schema": part.name.schema, "name": part.name.table}
    conn.execute(_QUERIES["adopt_partition" if part.into is None else "make_whole"], where)


def attach(conn: Connection, seam: SeamDefinition, part: RestoreRange, filled: FilledRange) -> TableName:
    """Make a filled table a partition under its name, or put its rows into the partition the heap has; the partition's
    name."""
    if part.into is not None:
        with user_triggers_silenced(conn):
            _fill_existing(
                conn, seam, {"filled": table_identifier(filled.table), "partition": table_identifier(part.into)}
            )
        conn.execute(sql.SQL("drop table {}").format(table_identifier(filled.table)))
        return part.into
    name = free_name(conn, part.name)
    _move(conn, filled.table, name)
    conn.execute(_QUERIES.render("attach", seam, partition=table_identifier(name), **_ends(seam, part.lo, part.hi)))
    conn.execute(sql.SQL("alter table {} drop constraint thermocline_bounds").format(table_identifier(name)))
    return name


def _fill_existing(conn: Connection, seam: SeamDefinition, places: Mapping[str, sql.Composable]) -> None:
    """Put the rows that a partition lacks into it, all of them and as they are."""
    partition, what = places["partition"], "go back into the heap"
    before = count_rows(conn, partition)
    lacking, held = copy_lacking_rows(conn, seam, places["filled"], partition)
    conn.execute(_QUERIES.render("fill_existing", seam, **places))
    check_rows_arrived(conn, seam, lacking, partition, what)
    check_count(conn, partition, before + held, what)
    conn.execute(sql.SQL("drop table {}").format(lacking))


def _move(conn: Connection, table: TableName, name: TableName) -> None:
    """Give a table another schema and name, its indexes with it.

    They move under names nobody has: names of 63 bytes were cut until they were free, and what is free here may be
    taken there. The type of arrays of the table's rows follows the table's name.
    """
    held = conn.execute(_QUERIES["held_names"], {"table": str(table)}).fetchall()
    moved = [("table" if kind == "r" else "index", was, f"thermocline_moved_{oid}") for oid, kind, was in held]
    for kind, was, between in moved:
        rename = sql.SQL("alter {} {} rename to {}").format(
            sql.SQL(kind), sql.Identifier(table.schema, was), sql.Identifier(between)
        )
        conn.execute(rename)
    conn.execute(
        sql.SQL("alter table {} set schema {}").format(
            sql.Identifier(table.schema, next(between for kind, _, between in moved if kind == "table")),
            sql.Identifier(name.schema),
        )
    )
    for kind, was, between in moved:
        free = name if kind == "table" else free_name(conn, TableName(name.schema, was))
        conn.execute(
            sql.SQL("alter {} {} rename to {}").format(
                sql.SQL(kind), sql.Identifier(name.schema, between), sql.Identifier(free.table)
            )
        )


def has_pending(conn: Connection, seam: SeamDefinition, gap: RestoreRange) -> bool:
    """Whether a correction that was held lies in the range."""
    return conn.execute(
        _QUERIES.render("has_pending", seam, condition=key_between(seam, gap.lo, gap.hi, "d"))
    ).fetchone() == (True,)


def apply_pending(conn: Connection, seam: SeamDefinition) -> int:
    """Apply the corrections that were held, exactly; the user's own triggers are kept out where we may. How many they
    were."""
    heap, pending = table_identifier(seam.objects.heap), sql.Identifier("pg_temp", "thermocline_pending")
    with user_triggers_silenced(conn):
        conn.execute(_QUERIES.render("take_pending", seam))
        check_rows_left(conn, seam, pending, heap, "corrections replace in the heap")
        done = conn.execute(_QUERIES.render("put_pending", seam)).rowcount
        check_rows_arrived(conn, seam, pending, heap, "corrections put into the heap", condition=sql.SQL("d._op = 0"))
        check_rows_left(conn, seam, pending, heap, "corrections delete from the heap", condition=sql.SQL("d._op <> 0"))
    return done


def _ends(seam: SeamDefinition, lo: int, hi: int) -> dict[str, sql.Composable]:
    low: sql.Composable = sql.SQL("minvalue") if lo == AXIS_MIN else sql.Literal(render_axis(seam.key_type, lo))
    return {"lo": low, "hi": sql.Literal(render_axis(seam.key_type, hi))}
