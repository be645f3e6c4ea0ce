"""Following the heap's owner: the seam, the delta and their functions run with its rights, and have to be its own."""

from __future__ import annotations

import secrets

import psycopg
from psycopg import sql

from thermocline.catalog.tables import RegisteredTable, insert_event
from thermocline.core.names import TableName
from thermocline.errors import HeapChanged
from thermocline.ops.register.registration import apply_retention_right, apply_schemas
from thermocline.ops.spanning_table import objects_of
from thermocline.runtime.pg import Connection, load_queries
from thermocline.runtime.settings import Settings
from thermocline.seam.foreign_server import apply_login
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.objects import SeamObjects

_QUERIES = load_queries("thermocline.ops", "queries/follow_owner.sql")


def follow_owner(conn: Connection, registered: RegisteredTable, settings: Settings) -> tuple[str, ...]:
    """Give what is ours to the heap's owner, with the rights it needs, where it is another than before; what was
    done."""
    objects = objects_of(registered)
    owned = [str(name) for name in (objects.delta, objects.spill, objects.lake, objects.seam)]
    row = conn.execute(
        _QUERIES["followed"], {"relations": owned, "functions": objects.functions, "heap_oid": registered.heap_oid}
    ).fetchone()
    if row is None or row[1]:
        return ()
    owner, said = str(row[0]), f"its seam belongs to {row[0]} now, as the table does"
    try:
        with short_locks(
            conn, settings.lock_timeout_ms, [registered.heap_oid], f"give the seam of {registered.name} to {owner}"
        ):
            _apply_owner(conn, registered, objects, owner)
            insert_event(conn, registered.id, "owner", f"{registered.name}: {said}.")
    except psycopg.errors.InsufficientPrivilege as refused:
        raise HeapChanged(
            (
                f"{registered.name} belongs to {owner} now, and its seam could not be given to that role: "
                f"{refused.diag.message_primary}."
            ),
            hint="Run `thermocline tier --local` once as a superuser.",
        ) from refused
    return (said,)


def _apply_owner(conn: Connection, registered: RegisteredTable, objects: SeamObjects, owner: str) -> None:
    apply_schemas(conn, registered.seam_schema, owner)
    apply_login(conn, owner, secrets.token_urlsafe(24))
    apply_retention_right(conn, owner)
    for kind, relation in (
        ("table", objects.delta),
        ("table", objects.spill),
        ("foreign table", objects.lake),
        ("view", objects.seam),
    ):
        _give(conn, kind, relation, owner)
    conn.execute("select thermocline.apply_functions(%s)", [registered.id])


def _give(conn: Connection, kind: str, relation: TableName, owner: str) -> None:
    name = sql.Identifier(relation.schema, relation.table)
    conn.execute(sql.SQL("alter {} {} owner to {}").format(sql.SQL(kind), name, sql.Identifier(owner)))
