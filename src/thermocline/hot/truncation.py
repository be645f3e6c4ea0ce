"""TRUNCATE: no row trigger sees it, so statement triggers carry it.

With keep-heap, what TRUNCATE removes is removed from both tiers. Where partitions leave the heap it removes what the heap answers for, and
a notice says that the history remains; rows of a partition on its way to the lake become tombstones, so that none of them comes back.
"""

from __future__ import annotations

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.hot.seam import SeamDefinition, SeamObjects, fire_always
from thermocline.pg import Connection

CAPTURE_TRUNCATE_TRIGGER = "thermocline_capture_truncate"
NOTICE_TRIGGER = "thermocline_truncate_notice"
_FUNCTIONS = ("capture_truncate", "truncate_notice")


def apply_truncation(conn: Connection, seam: SeamDefinition) -> None:
    """Capture what is truncated from the spill, and say what TRUNCATE of the heap leaves; the functions were made with the seam's."""
    objects = seam.objects
    apply_truncate_capture(conn, objects, objects.spill)
    if not seam.keep_heap:
        _apply_trigger(conn, NOTICE_TRIGGER, "after", objects.heap, objects.function("truncate_notice"))


def apply_truncate_capture(conn: Connection, objects: SeamObjects, relation: TableName) -> None:
    """From now on TRUNCATE of this partition, or of the table, leaves tombstones."""
    _apply_trigger(conn, CAPTURE_TRUNCATE_TRIGGER, "before", relation, objects.function("capture_truncate"))
    fire_always(conn, CAPTURE_TRUNCATE_TRIGGER, relation)


def remove_truncation(conn: Connection, objects: SeamObjects) -> None:
    """Remove both functions, and with them every trigger that calls them."""
    with conn.transaction():
        conn.execute("set local client_min_messages = warning")
        for what in _FUNCTIONS:
            conn.execute(sql.SQL("drop function if exists {}() cascade").format(objects.function(what)))


def _apply_trigger(conn: Connection, name: str, when: str, relation: TableName, function: sql.Identifier) -> None:
    conn.execute(
        sql.SQL("create or replace trigger {} {} truncate on {} for each statement execute function {}()").format(
            sql.Identifier(name), sql.SQL(when), sql.Identifier(relation.schema, relation.table), function
        )
    )
