"""Undoing a registration: everything it made in Postgres goes; the lake stays when it holds rows, for it may be their only copy."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from thermocline.catalog import journal, tables
from thermocline.catalog.migrate import check_version_known, read_version
from thermocline.cold.create import remove_lake_files
from thermocline.core.names import TableName
from thermocline.errors import DeltaNotEmpty, SeamInUse
from thermocline.hot.partitions import short_locks
from thermocline.hot.seam import SERVER, SeamObjects, remove_seam_objects
from thermocline.hot.truncation import remove_truncation
from thermocline.ops.register import SEAM_SCHEMA_COMMENT
from thermocline.ops.spanning import objects_of
from thermocline.pg import Connection, connect, load_queries
from thermocline.settings import Settings

_QUERIES = load_queries("thermocline.ops", "queries/unregister.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterReport:
    """What was removed, and where the history is when the lake was kept."""

    table: str
    was_registered: bool
    removed: tuple[str, ...]
    lake_kept_at: str | None


def unregister(dsn: str, name: TableName, *, settings: Settings, dry_run: bool = False) -> UnregisterReport:
    """Remove the registration of a table; one that is not registered is left as it is."""
    with connect(dsn, autocommit=True, application_name="thermocline unregister") as conn:
        check_version_known(read_version(conn))
        has_catalog = conn.execute("select to_regclass('thermocline.tables') is not null").fetchone() == (True,)
        table = tables.read_table(conn, name) if has_catalog else None
        if table is None:
            return UnregisterReport(table=str(name), was_registered=False, removed=(), lake_kept_at=None)
        objects = objects_of(table)
        if dry_run:
            keep_lake = journal.read_cutline(conn, table.id).s is not None
        else:
            with journal.table_lock(conn, table.id, str(name)):
                # Under the table's lock: nobody publishes between this look and the end.
                keep_lake = journal.read_cutline(conn, table.id).s is not None
                _apply(conn, table, objects, keep_lake, settings)
        kept = table.lake_location if keep_lake else None
        return UnregisterReport(table=str(name), was_registered=True, removed=_render(objects, table, keep_lake), lake_kept_at=kept)


def _apply(conn: Connection, table: tables.RegisteredTable, objects: SeamObjects, keep_lake: bool, settings: Settings) -> None:
    try:
        with short_locks(conn, settings.lock_timeout_ms, [table.heap_oid], f"unregister {table.name}"):
            _lock(conn, objects)
            _check_nothing_pending(conn, table, objects)
            owner = _read_owner(conn, objects.delta)
            captured = conn.execute(_QUERIES["captured"], {"function": f"{objects.functions}_capture"}).fetchall()
            remove_truncation(conn, objects)
            remove_seam_objects(conn, objects, [TableName(*row) for row in captured])
            if not keep_lake:
                tables.delete_lake_table(conn, table.lake_namespace, table.lake_name)
            tables.delete_table(conn, table.id)
            _remove_login(conn, owner)
            _remove_seam_schema(conn, objects.seam.schema)
            tables.insert_event(conn, None, "unregister", f"{table.name} is no longer registered.")
    except psycopg.errors.DependentObjectsStillExist as problem:
        detail = (problem.diag.message_detail or "").splitlines()
        raise SeamInUse(f"{table.name} stays registered: {detail[0] if detail else problem.diag.message_primary}.") from problem
    if not keep_lake:
        remove_lake_files(table.lake_location)


def _lock(conn: Connection, objects: SeamObjects) -> None:
    """Wait out every writer, the heap's first as they take it first, so that nothing is written between the check and the drop."""
    for relation in (objects.heap, objects.spill, objects.delta):
        if _exists(conn, relation):
            only = sql.SQL("lock table only {} in access exclusive mode")
            conn.execute(only.format(sql.Identifier(relation.schema, relation.table)))


def _exists(conn: Connection, name: TableName) -> bool:
    return conn.execute(_QUERIES["relation_exists"], {"schema": name.schema, "table": name.table}).fetchone() is not None


def _check_nothing_pending(conn: Connection, table: tables.RegisteredTable, objects: SeamObjects) -> None:
    """Refuse while the delta holds corrections: they are nowhere else, and neither tier would have them afterwards."""
    cut = journal.read_cutline(conn, table.id)
    pending, spilled = 0, 0
    if _exists(conn, objects.delta):
        condition = sql.SQL("d._folded is null and thermocline.axis(d.{}) < {}").format(sql.Identifier(table.tier_key), sql.Literal(cut.t))
        # With keep-heap the heap has them too.
        pending = 0 if table.keep_heap else _count(conn, objects.delta, condition)
    if _exists(conn, objects.spill):
        spilled = _count(conn, objects.spill, sql.SQL("true"))
    if pending or spilled:
        raise DeltaNotEmpty(
            f"{objects.heap} has {pending} corrections that are not in the lake yet and {spilled} rows in the spill.",
            hint=f"They would be lost: fold them into the lake first. They are in {objects.delta} and {objects.spill}.",
        )


def _count(conn: Connection, relation: TableName, condition: sql.Composable) -> int:
    query = sql.SQL("select count(*) from {} d where {}").format(sql.Identifier(relation.schema, relation.table), condition)
    row = conn.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _read_owner(conn: Connection, delta: TableName) -> str | None:
    row = conn.execute(_QUERIES["owner"], {"schema": delta.schema, "table": delta.table}).fetchone()
    return row[0] if row else None


def _remove_login(conn: Connection, owner: str | None) -> None:
    """The owner's way to the gateway and into the catalog goes with its last table; our own, made by `init`, stays."""
    if owner is None or conn.execute(_QUERIES["owner_is_needed"], {"owner": owner}).fetchone() == (True,):
        return
    role = sql.Identifier(owner)
    conn.execute(sql.SQL("drop user mapping if exists for {} server {}").format(role, sql.Identifier(SERVER)))
    conn.execute(_QUERIES["forget_login"], {"owner": owner})
    conn.execute(sql.SQL("revoke usage on foreign server {} from {}").format(sql.Identifier(SERVER), role))
    conn.execute(sql.SQL("revoke usage on schema thermocline, thermocline_delta, thermocline_lake, thermocline_fn from {}").format(role))
    conn.execute(sql.SQL("revoke select on thermocline.cutline from {}").format(role))
    conn.execute(sql.SQL("revoke all on thermocline.retention from {}").format(role))
    conn.execute(sql.SQL("revoke usage on sequence thermocline.delta_version from {}").format(role))


def _remove_seam_schema(conn: Connection, schema: str) -> None:
    """Only the schema that registration made, and only when nothing else is in it."""
    if conn.execute(_QUERIES["empty_seam_schema"], {"schema": schema, "comment": SEAM_SCHEMA_COMMENT}).fetchone() is not None:
        conn.execute(sql.SQL("drop schema {}").format(sql.Identifier(schema)))


def _render(objects: SeamObjects, table: tables.RegisteredTable, keep_lake: bool) -> tuple[str, ...]:
    lines = (
        f"seam {objects.seam}",
        f"foreign table {objects.lake}",
        f"delta {objects.delta}",
        f"spill {objects.spill}",
        "capture triggers and functions",
    )
    return lines if keep_lake else (*lines, f"lake table {table.lake_location} (it held nothing)")
