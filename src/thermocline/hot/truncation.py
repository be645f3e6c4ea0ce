"""TRUNCATE: no row trigger sees it, so statement triggers carry it.

With keep-heap, what TRUNCATE removes is removed from both tiers. Where partitions leave the heap it removes what the heap answers for, and
a notice says that the history remains; rows of a partition on its way to the lake become tombstones, so that none of them comes back.
"""

from __future__ import annotations

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.hot.seam import FUNCTION_VERSION, SeamDefinition, SeamObjects, key_expression
from thermocline.pg import Connection, load_queries

CAPTURE_TRUNCATE_TRIGGER = "thermocline_capture_truncate"
NOTICE_TRIGGER = "thermocline_truncate_notice"
_FUNCTIONS = ("capture_truncate", "truncate_notice")
_QUERIES = load_queries("thermocline.hot", "queries/truncation.sql")


def apply_truncation(conn: Connection, seam: SeamDefinition) -> None:
    """Make the functions, capture what is truncated from the spill, and say what TRUNCATE of the heap leaves."""
    objects = seam.objects
    parts = _parts(conn, seam)
    path = sql.SQL(", ").join(sql.Identifier(name) for name in dict.fromkeys(("pg_catalog", seam.heap.name.schema, "public", "pg_temp")))
    for what in _FUNCTIONS:
        function, body = objects.function(what), sql.SQL(_QUERIES[what]).format(**parts).as_string(conn)
        conn.execute(
            sql.SQL("create function {}() returns trigger language plpgsql security definer set search_path = {} as {}").format(
                function, path, sql.Literal(body)
            )
        )
        conn.execute(sql.SQL("alter function {}() owner to {}").format(function, sql.Identifier(seam.heap.owner)))
        conn.execute(sql.SQL("revoke all on function {}() from public").format(function))
    apply_truncate_capture(conn, objects, objects.spill)
    if not seam.keep_heap:
        _apply_trigger(conn, NOTICE_TRIGGER, "after", objects.heap, objects.function("truncate_notice"))


def apply_truncate_capture(conn: Connection, objects: SeamObjects, relation: TableName) -> None:
    """From now on TRUNCATE of this partition, or of the table, leaves tombstones."""
    _apply_trigger(conn, CAPTURE_TRUNCATE_TRIGGER, "before", relation, objects.function("capture_truncate"))


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


def _parts(conn: Connection, seam: SeamDefinition) -> dict[str, sql.Composable]:
    objects = seam.objects
    names = [column.name for column in seam.heap.columns]
    parts: dict[str, sql.Composable] = {
        "version": sql.SQL(FUNCTION_VERSION),
        "table_id": sql.SQL(str(seam.table_id)),
        "delta": sql.Identifier(objects.delta.schema, objects.delta.table),
        "columns": sql.SQL(", ").join(sql.Identifier(name) for name in names),
        "key_columns": sql.SQL(", ").join(sql.Identifier(column.name) for column in seam.heap.primary_key),
        "columns_from_excluded": sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in names),
        "kept": sql.SQL("$1 is not null")
        if seam.keep_heap
        else sql.SQL("thermocline.axis(h.{}) operator(pg_catalog.>=) $1").format(sql.Identifier(seam.tier_key)),
        "heap_text": sql.SQL(str(objects.heap).replace("'", "''").replace("%", "%%")),
        "seam_text": sql.SQL(str(objects.seam).replace("'", "''")),
        "cut": sql.SQL("(select {} from thermocline.cutline c where c.table_id operator(pg_catalog.=) {})").format(
            key_expression(seam.key_type, sql.SQL("c.t")), sql.Literal(seam.table_id)
        ),
    }
    for piece in ("head", "tail"):
        parts[piece] = sql.Literal(sql.SQL(_QUERIES[piece]).format(**parts).as_string(conn))
    return parts
