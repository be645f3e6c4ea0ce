"""Undoing a registration: everything it made in Postgres goes; the lake stays when it holds rows, for it may be their only copy."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from thermocline.catalog import journal, tables
from thermocline.cold.create import remove_lake_files
from thermocline.core.names import TableName
from thermocline.errors import DeltaNotEmpty, TableNotFound
from thermocline.hot.facts import read_heap, read_partitions
from thermocline.hot.partitions import short_locks
from thermocline.hot.seam import SeamObjects, remove_seam_objects
from thermocline.ops.spanning import objects_of
from thermocline.pg import Connection, connect
from thermocline.settings import Settings


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
        has_catalog = conn.execute("select to_regclass('thermocline.tables') is not null").fetchone() == (True,)
        table = tables.read_table(conn, name) if has_catalog else None
        if table is None:
            return UnregisterReport(table=str(name), was_registered=False, removed=(), lake_kept_at=None)
        objects = objects_of(table)
        keep_lake = journal.read_cutline(conn, table.id).s is not None
        removed = _render(objects, table, keep_lake)
        if not dry_run:
            with (
                journal.table_lock(conn, table.id, str(name)),
                short_locks(conn, settings.lock_timeout_ms, [table.heap_oid], f"unregister {name}"),
            ):
                _check_nothing_pending(conn, table, objects)
                remove_seam_objects(conn, objects, _captured(conn, table))
                if not keep_lake:
                    tables.delete_lake_table(conn, table.lake_namespace, table.lake_name)
                tables.delete_table(conn, table.id)
                tables.insert_event(conn, None, "unregister", f"{name} is no longer registered.")
            if not keep_lake:
                remove_lake_files(table.lake_location)
        kept = table.lake_location if keep_lake else None
        return UnregisterReport(table=str(name), was_registered=True, removed=removed, lake_kept_at=kept)


def _check_nothing_pending(conn: Connection, table: tables.RegisteredTable, objects: SeamObjects) -> None:
    """Refuse while the delta holds corrections: they are nowhere else, and neither tier would have them afterwards."""
    cut = journal.read_cutline(conn, table.id)
    pending = conn.execute(
        sql.SQL("select count(*) from {} d where d._folded is null and thermocline.axis(d.{}) < %s").format(
            sql.Identifier(objects.delta.schema, objects.delta.table), sql.Identifier(table.tier_key)
        ),
        [cut.t],
    ).fetchone()
    spilled = conn.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(objects.spill.schema, objects.spill.table))).fetchone()
    assert pending is not None
    assert spilled is not None
    if pending[0] or spilled[0]:
        raise DeltaNotEmpty(
            f"{objects.heap} has {pending[0]} corrections that are not in the lake yet and {spilled[0]} rows in the spill.",
            hint="Fold them into the lake first; they would be lost with the delta.",
        )


def _captured(conn: Connection, table: tables.RegisteredTable) -> list[TableName]:
    """The partitions that may carry a capture trigger; none when the table itself is gone."""
    try:
        heap = read_heap(conn, table.name)
    except TableNotFound:
        return []
    return [partition.name for partition in read_partitions(conn, heap, table.key_type)]


def _render(objects: SeamObjects, table: tables.RegisteredTable, keep_lake: bool) -> tuple[str, ...]:
    lines = (
        f"seam {objects.seam}",
        f"foreign table {objects.lake}",
        f"delta {objects.delta}",
        f"spill {objects.spill}",
        "capture triggers and functions",
    )
    return lines if keep_lake else (*lines, f"lake table {table.lake_location} (it held nothing)")
