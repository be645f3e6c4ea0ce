"""TRUNCATE: no row trigger sees it, so statement triggers carry it; and what `thermocline truncate` does to the heap
and the delta.

With keep-heap, what TRUNCATE removes is removed from both tiers. Where partitions leave the heap it removes what the
heap answers for, and a notice says that the history remains; rows of a partition on its way to the lake become
tombstones, so that none of them comes back.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, rows_by_name, table_identifier
from thermocline.seam.heap.row_moves import user_triggers_silenced
from thermocline.seam.objects import SeamDefinition, SeamObjects, fire_always
from thermocline.seam.render import Templates

CAPTURE_TRUNCATE_TRIGGER = "thermocline_capture_truncate"
NOTICE_TRIGGER = "thermocline_truncate_notice"
_FUNCTIONS = ("capture_truncate", "truncate_notice")
_QUERIES = Templates.load("remove_rows.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedRows:
    """How many rows and corrections went, and how many rows a trigger of the user's kept."""

    heap_rows: int
    corrections: int
    kept: int


def why_not_truncate(conn: Connection, seam: SeamDefinition) -> str | None:
    """TRUNCATE's own rule: a table that others refer to keeps its rows, for no check of theirs would see them go."""
    row = rows_by_name(conn).execute(_QUERIES["referring"], {"oid": seam.heap.oid}).fetchone()
    return f"{row.relation} refers to it by the foreign key {row.conname}" if row else None


def count_rows(conn: Connection, seam: SeamDefinition) -> tuple[int, int]:
    """Rows of the heap, and corrections that wait."""
    row = rows_by_name(conn).execute(_QUERIES.render("count", seam)).fetchone()
    assert row is not None
    return int(row.heap_rows), int(row.corrections)


def lock_against_writers(conn: Connection, seam: SeamDefinition) -> None:
    """Wait out every writer and let none begin until the transaction ends; readers go on. The heap and all its
    partitions."""
    conn.execute(_QUERIES.render("lock_heap", seam))


def delete_all_rows(conn: Connection, seam: SeamDefinition) -> TruncatedRows:
    """Delete every row of heap and delta, in the caller's transaction, under the lock against writers.

    Writers whose snapshot is older find the epoch raised, or the row gone, and run again. What captures make of these
    deletes goes with the delta.
    """
    _, corrections = count_rows(conn, seam)
    for name in ("raise_epoch", "move_line_row"):
        conn.execute(_QUERIES[name], {"table_id": seam.table_id})
    with user_triggers_silenced(conn):
        heap_rows = conn.execute(_QUERIES.render("delete_heap", seam)).rowcount
        conn.execute(_QUERIES.render("delete_delta", seam))
    conn.execute("set constraints all immediate")
    conn.execute(_QUERIES["forget_rows"], {"table_id": seam.table_id})
    kept, _ = count_rows(conn, seam)
    return TruncatedRows(heap_rows=heap_rows, corrections=corrections, kept=kept)


def apply_truncate_triggers(conn: Connection, seam: SeamDefinition) -> None:
    """Capture what is truncated from the spill, and say what TRUNCATE of the heap leaves; the functions were made with
    the seam's."""
    objects = seam.objects
    apply_truncate_capture(conn, objects, objects.spill)
    if not seam.mode.heap_is_complete:
        _apply_trigger(conn, NOTICE_TRIGGER, "after", objects.heap, objects.function("truncate_notice"))


def apply_truncate_capture(conn: Connection, objects: SeamObjects, relation: TableName) -> None:
    """From now on TRUNCATE of this partition, or of the table, leaves tombstones."""
    _apply_trigger(conn, CAPTURE_TRUNCATE_TRIGGER, "before", relation, objects.function("capture_truncate"))
    fire_always(conn, CAPTURE_TRUNCATE_TRIGGER, relation)


def remove_truncate_triggers(conn: Connection, objects: SeamObjects) -> None:
    """Remove both functions, and with them every trigger that calls them."""
    with conn.transaction():
        conn.execute("set local client_min_messages = warning")
        for what in _FUNCTIONS:
            conn.execute(sql.SQL("drop function if exists {}() cascade").format(objects.function(what)))


def _apply_trigger(conn: Connection, name: str, when: str, relation: TableName, function: sql.Identifier) -> None:
    conn.execute(
        sql.SQL("create or replace trigger {} {} truncate on {} for each statement execute function {}()").format(
            sql.Identifier(name), sql.SQL(when), table_identifier(relation), function
        )
    )
