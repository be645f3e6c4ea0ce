"""Following the heap's owner: the seam and its functions run with its rights, and have to be its own; the delta is
ours, and the owner may write its rows."""

from __future__ import annotations

import secrets

import psycopg
from psycopg import sql

from thermocline.catalog.tables import RegisteredTable, insert_event
from thermocline.core.names import TableName
from thermocline.errors import HeapChanged
from thermocline.ops.register.registration import apply_retention_right, apply_schemas
from thermocline.ops.spanning_table import objects_of
from thermocline.runtime.pg import Connection, load_queries, rows_by_name
from thermocline.runtime.settings import Settings
from thermocline.seam.foreign_server import apply_login
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.objects import SeamObjects, lake_range_tables

_QUERIES = load_queries("thermocline.ops", "queries/follow_owner.sql")


def follow_owner(conn: Connection, registered: RegisteredTable, settings: Settings) -> tuple[str, ...]:
    """Give what is ours to the heap's owner, with the rights it needs, where it is another than before; what was
    done."""
    objects = objects_of(registered)
    parent, nothing = lake_range_tables(registered.id)
    owned = [str(name) for name in (objects.spill, objects.lake, parent, nothing, objects.seam)]
    row = (
        rows_by_name(conn)
        .execute(
            _QUERIES["followed"],
            {
                "relations": owned,
                "delta": str(objects.delta),
                "functions": objects.functions,
                "heap_oid": registered.heap_oid,
            },
        )
        .fetchone()
    )
    if row is None or (row.is_followed and row.is_delta_ours):
        return ()
    owner = str(row.owner)
    # In earlier releases the delta belonged to the heap's owner.
    change = (
        "its delta is no longer the table owner's, and what was put on it is gone"
        if row.is_followed
        else f"its seam belongs to {owner} now, as the table does"
    )
    try:
        with short_locks(
            conn, settings.lock_timeout_ms, [registered.heap_oid], f"give the seam of {registered.name} to {owner}"
        ):
            if not row.is_followed:
                _apply_owner(conn, registered, objects, owner)
            conn.execute("select thermocline.apply_delta_owner(%s)", [registered.id])
            insert_event(conn, registered.id, "owner", f"{registered.name}: {change}.")
    except psycopg.errors.InsufficientPrivilege as refused:
        raise HeapChanged(
            (
                f"{registered.name} belongs to {owner} now, and its seam could not be given to that role: "
                f"{refused.diag.message_primary}."
            ),
            hint="Run `thermocline tier --local` once as a superuser.",
        ) from refused
    return (change,)


def _apply_owner(conn: Connection, registered: RegisteredTable, objects: SeamObjects, owner: str) -> None:
    apply_schemas(conn, registered.seam_schema, owner)
    apply_login(conn, owner, secrets.token_urlsafe(24))
    apply_retention_right(conn, owner)
    for kind, relation in (
        ("table", objects.spill),
        ("foreign table", objects.lake),
        *(("table if exists", relation) for relation in lake_range_tables(registered.id)),
        ("view", objects.seam),
    ):
        _give(conn, kind, relation, owner)
    conn.execute("select thermocline.apply_functions(%s)", [registered.id])


def _give(conn: Connection, kind: str, relation: TableName, owner: str) -> None:
    name = sql.Identifier(relation.schema, relation.table)
    conn.execute(sql.SQL("alter {} {} owner to {}").format(sql.SQL(kind), name, sql.Identifier(owner)))
