"""Undoing a registration: everything it made in Postgres goes; the lake stays when it holds rows, for it may be their
only copy.

An unfinished operation is decided first, so that the lake's head is what was published; then one transaction forgets
the table and remembers the lake, to be adopted by a later registration. With `restore_heap`, history is copied back
before (`ops/register/restore_heap.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
from psycopg import sql
from pyspark.sql import SparkSession

from thermocline.catalog import journal, tables
from thermocline.catalog import unregistered_lakes as kept_lakes
from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.catalog.migrate import check_version_known, read_version
from thermocline.core.names import TableName
from thermocline.core.plan.restore import RestoreRange
from thermocline.errors import DeltaNotEmpty, HeapLacksRows, SeamInUse, ThermoclineError, WrittenDuringRestore
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.ops.fold import fold
from thermocline.ops.register.lake_folders import remove_lake_files
from thermocline.ops.register.leaving_rows import LeavingRows, count_leaving
from thermocline.ops.register.registration import SEAM_SCHEMA_COMMENT
from thermocline.ops.register.restore_heap import (
    RestoredHistory,
    attach_restored,
    count_lacking,
    drop_all_filled,
    fill_history,
    note_restored,
    plan_history,
)
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.resolve import resolve_unfinished
from thermocline.ops.schema.follow_columns import follow_schema
from thermocline.ops.spanning_table import objects_of, read_spanning
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection, connect, load_queries
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.retries import retry_on
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.objects import SERVER, SeamObjects, read_captured, remove_seam_objects
from thermocline.seam.truncation import remove_truncate_triggers

_QUERIES = load_queries("thermocline.ops", "queries/unregister.sql")

ONLY_COPY = "it may hold the only copy of the table's history"
_ATTEMPTS = 3
WHOLE_HEAP = "the heap has every row of it too"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterReport:
    """What was removed, and where the history is when the lake was kept."""

    table: str
    was_registered: bool
    removed: tuple[str, ...]
    lake_kept_at: str | None
    notes: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    rows_restored: int = 0
    rows_in_lake: int | None = None
    """Rows that the lake holds; None where it cannot be read, and where there is none."""
    rows_leaving: int | None = None
    """Of those, how many the heap does not hold: the table is without them afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistration:
    """One unregistration under way: the connection that holds the table's lock, the table, the options."""

    conn: Connection
    dsn: str = field(repr=False)
    table: tables.RegisteredTable
    objects: SeamObjects
    settings: Settings
    spark: Callable[[], SparkSession]
    fold_first: bool
    restore_heap: bool
    drop_lake: bool
    dry_run: bool
    report_progress: ProgressReporter


def unregister(
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession] | None = None,
    fold_first: bool = False,
    restore_heap: bool = False,
    drop_lake: bool = False,
    dry_run: bool = False,
    report_progress: ProgressReporter = no_progress,
) -> UnregisterReport:
    """Remove the registration of a table; one that is not registered is left as it is, but for a lake that is to be
    dropped."""
    with connect(dsn, autocommit=True, application_name="thermocline unregister") as conn:
        check_version_known(read_version(conn))
        has_catalog = conn.execute("select to_regclass('thermocline.tables') is not null").fetchone() == (True,)
        table = tables.read_table(conn, name) if has_catalog else None
        if table is None:
            return _drop_kept(conn, name, dry_run=dry_run) if drop_lake and has_catalog else _report(name, None)
        source = spark or lazy_spark_session(dsn, settings)
        if fold_first and not dry_run:
            fold(dsn, name, settings=settings, spark=source)
        work = Unregistration(
            conn=conn,
            dsn=dsn,
            table=table,
            objects=objects_of(table),
            settings=settings,
            spark=source,
            fold_first=fold_first,
            restore_heap=restore_heap,
            drop_lake=drop_lake,
            dry_run=dry_run,
            report_progress=report_progress,
        )
        return _leave(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What is left of keep-heap's promise: the ranges that the heap is not proved to hold whole, and whether readers
    see rows it lacks."""

    planned: tuple[RestoreRange, ...] = ()
    has_every_row: bool


def _leave(work: Unregistration) -> UnregisterReport:
    conn, table = work.conn, work.table
    if work.dry_run:
        if not work.fold_first:
            _check_nothing_pending(work)
        leaving = count_leaving(conn, table)
        return _report(
            table.name,
            work,
            keep_lake=_keeps_lake(work),
            rows=leaving.leaving if work.restore_heap and leaving else 0,
            has_every_row=work.restore_heap or _look_at_heap(work).has_every_row,
            leaving=leaving,
        )
    if not _keeps_lake(work):
        check_lakes_match_journal(conn)
    with journal.table_lock(conn, table.id, str(table.name), even_copied=_keeps_lake(work)):
        cut = journal.claim(conn, table.id, even_paused=True)
        if work.restore_heap or not work.drop_lake:
            # The lake's files that nobody published yet are part of it or not: afterwards that cannot be decided.
            resolve_unfinished(conn, table, work.spark, cut.fence)
        # Under the table's lock: nobody publishes between this look and the end.
        keep_lake = _keeps_lake(work)
        leaving = count_leaving(conn, table)
        if keep_lake:
            # Columns that the lake does not know yet could not be adopted again; what cannot be followed stops nobody
            # from leaving.
            with suppress(ThermoclineError):
                follow_schema(conn, table, work.settings)
        if work.restore_heap:
            attached, restored = _restore_and_apply(work, keep_lake)
            return _report(
                table.name,
                work,
                keep_lake=keep_lake,
                attached=attached,
                rows=restored.rows,
                has_every_row=True,
                leaving=leaving,
            )
        kept = _look_at_heap(work)
        _apply(work, keep_lake, None, kept)
    return _report(table.name, work, keep_lake=keep_lake, has_every_row=kept.has_every_row, leaving=leaving)


def _look_at_heap(work: Unregistration) -> _Kept:
    """Whether the heap has every row of the lake; refuses to drop the lake of a keep-heap table while it has not.

    A lake that stays is left even when it cannot be compared: the report then says that it may hold the only copy.
    """
    conn, table = work.conn, work.table
    drops = work.drop_lake and _exists(conn, work.objects.seam)
    if (
        not table.mode.heap_is_complete
        or journal.read_cutline(conn, table.id).s is None
        or (work.drop_lake and not drops)
    ):
        return _Kept(has_every_row=False)
    try:
        # Only a look: a dry run leaves no partition discovered.
        with conn.transaction(force_rollback=True):
            spanning = read_spanning(conn, table.name)
            planned = plan_history(conn, spanning)
            lacking = count_lacking(conn, spanning, planned)
    except (ThermoclineError, psycopg.Error) as problem:
        if not drops:
            return _Kept(has_every_row=False)
        raise HeapLacksRows(
            f"Whether the heap of {table.name} has every row of the lake is unknown: {problem}"
        ) from problem
    if lacking and drops:
        raise HeapLacksRows(
            f"The lake of {table.name} holds {lacking:,} rows that the heap lacks: a partition was dropped, "
            "detached or emptied by hand."
        )
    return _Kept(planned=planned, has_every_row=not lacking)


def _check_still_kept(work: Unregistration, kept: _Kept) -> None:
    """Under the locks, ahead of dropping the lake: what the heap holds whole is what it was when it was looked at."""
    if not (work.drop_lake and kept.has_every_row):
        return
    if plan_history(work.conn, read_spanning(work.conn, work.table.name)) != kept.planned:
        raise WrittenDuringRestore(
            f"Partitions of {work.table.name} were changed by hand while it was unregistered; nothing was changed."
        )


def _restore_and_apply(work: Unregistration, keep_lake: bool) -> tuple[tuple[TableName, ...], RestoredHistory]:
    """Bring history back and leave; again, when rows came where there had been none."""
    for attempt in retry_on(WrittenDuringRestore, attempts=_ATTEMPTS):
        restored = fill_history(work.conn, read_spanning(work.conn, work.table.name), work.report_progress)
        with attempt:
            return _apply(work, keep_lake, restored), restored
    raise AssertionError("unreachable")


def _keeps_lake(work: Unregistration) -> bool:
    return journal.read_cutline(work.conn, work.table.id).s is not None and not work.drop_lake


def _apply(
    work: Unregistration, keep_lake: bool, restored: RestoredHistory | None, kept: _Kept | None = None
) -> tuple[TableName, ...]:
    """The one transaction; the partitions that history was put into."""
    conn, table = work.conn, work.table
    attached: tuple[TableName, ...] = ()
    try:
        with short_locks(conn, work.settings.lock_timeout_ms, [table.heap_oid], f"unregister {table.name}"):
            _lock(conn, work.objects)
            _check_nothing_pending(work)
            if kept is not None:
                _check_still_kept(work, kept)
            if restored is None:
                drop_all_filled(conn, table.id)
            else:
                note_restored(conn, restored)
            owner = _forget(work, keep_lake)
            fault_point("unregister-forgotten")
            if restored is not None:
                attached = attach_restored(conn, restored)
                fault_point("unregister-restored")
            _remove_login(conn, owner)
    except psycopg.errors.DependentObjectsStillExist as problem:
        detail = (problem.diag.message_detail or "").splitlines()
        raise SeamInUse(
            f"{table.name} stays registered: {detail[0] if detail else problem.diag.message_primary}."
        ) from problem
    fault_point("unregister-committed")
    if not keep_lake:
        _remove_files(conn, table.lake_location)
    return attached


def _forget(work: Unregistration, keep_lake: bool) -> str | None:
    """Remove what registration made for this table alone; the role that owned it."""
    conn, table, objects = work.conn, work.table, work.objects
    owner = _read_owner(conn, objects.lake)
    captured = read_captured(conn, objects)
    if keep_lake:
        kept_lakes.keep_lake(conn, table.id)
    remove_truncate_triggers(conn, objects)
    remove_seam_objects(conn, table.id, objects, captured)
    if not keep_lake:
        lake_catalog().delete_table(conn, table.lake)
        kept_lakes.leave_location(conn, table.lake_location)
    tables.delete_table(conn, table.id)
    _remove_seam_schema(conn, objects.seam.schema)
    tables.insert_event(conn, None, "unregister", f"{table.name} is no longer registered.")
    return owner


def _remove_files(conn: Connection, location: str) -> None:
    """What is killed here is finished by the janitor."""
    remove_lake_files(conn, location)
    fault_point("unregister-files-removed")
    kept_lakes.take_location(conn, location)


def _drop_kept(conn: Connection, name: TableName, *, dry_run: bool) -> UnregisterReport:
    """The lake that an earlier unregistration left."""
    if (kept := kept_lakes.find_kept(conn, name.schema, name.table)) is None:
        return _report(name, None)
    if not dry_run:
        check_lakes_match_journal(conn)
        check_may_change_lakes(conn)
        with conn.transaction():
            lake_catalog().delete_table(conn, TableName(kept.namespace, kept.name))
            kept_lakes.forget_kept(conn, kept.uuid)
            kept_lakes.leave_location(conn, kept.location)
            tables.insert_event(conn, None, "unregister", f"The lake that {name} had left was dropped.")
        _remove_files(conn, kept.location)
    return UnregisterReport(
        table=str(name), was_registered=False, removed=(f"lake table {kept.location}",), lake_kept_at=None
    )


def _lock(conn: Connection, objects: SeamObjects) -> None:
    """Wait out every writer, the heap's first as they take it first, so that nothing is written between the check and
    the drop.

    Captured partitions too: TRUNCATE of one by its own name does not lock the heap. The delta last: a writer of such
    a partition locks it when its rows are captured.
    """
    _lock_only(conn, objects.heap)
    for relation in (objects.spill, *read_captured(conn, objects), objects.delta):
        _lock_only(conn, relation)


def _lock_only(conn: Connection, relation: TableName) -> None:
    if _exists(conn, relation):
        only = sql.SQL("lock table only {} in access exclusive mode")
        conn.execute(only.format(sql.Identifier(relation.schema, relation.table)))


def _exists(conn: Connection, name: TableName) -> bool:
    return (
        conn.execute(_QUERIES["relation_exists"], {"schema": name.schema, "table": name.table}).fetchone() is not None
    )


def _check_nothing_pending(work: Unregistration) -> None:
    """Refuse while the delta holds corrections: they are nowhere else, and neither tier would have them afterwards."""
    conn, table, objects = work.conn, work.table, work.objects
    cut = journal.read_cutline(conn, table.id)
    pending, spilled = 0, 0
    if _exists(conn, objects.delta):
        condition = sql.SQL("d._folded is null and thermocline.axis(d.{}) < {}").format(
            sql.Identifier(table.tier_key), sql.Literal(cut.t)
        )
        # With keep-heap the heap has them too; where it is restored, they are applied to it.
        pending = 0 if table.mode.heap_is_complete or work.restore_heap else _count(conn, objects.delta, condition)
    if _exists(conn, objects.spill):
        ahead = sql.SQL("thermocline.axis(d.{}) >= {}").format(sql.Identifier(table.tier_key), sql.Literal(cut.t))
        spilled = _count(conn, objects.spill, ahead if work.restore_heap else sql.SQL("true"))
    if pending or spilled:
        raise DeltaNotEmpty(
            f"{objects.heap} has {pending} corrections that are not in the lake yet and {spilled} rows in the spill.",
            hint=(
                f"They would be lost: give --fold to fold them into the lake first. They are in {objects.delta} "
                f"and {objects.spill}."
            ),
        )


def _count(conn: Connection, relation: TableName, condition: sql.Composable) -> int:
    query = sql.SQL("select count(*) from {} d where {}").format(
        sql.Identifier(relation.schema, relation.table), condition
    )
    row = conn.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _read_owner(conn: Connection, lake: TableName) -> str | None:
    row = conn.execute(_QUERIES["owner"], {"schema": lake.schema, "table": lake.table}).fetchone()
    return row[0] if row else None


def _remove_login(conn: Connection, owner: str | None) -> None:
    """The owner's way to the gateway and into the catalog goes with its last table; our own, made by `init`, stays."""
    if owner is None or conn.execute(_QUERIES["owner_is_needed"], {"owner": owner}).fetchone() == (True,):
        return
    role = sql.Identifier(owner)
    conn.execute(sql.SQL("drop user mapping if exists for {} server {}").format(role, sql.Identifier(SERVER)))
    conn.execute(_QUERIES["forget_login"], {"owner": owner})
    conn.execute(sql.SQL("revoke usage on foreign server {} from {}").format(sql.Identifier(SERVER), role))
    conn.execute(
        sql.SQL(
            "revoke usage on schema thermocline, thermocline_delta, thermocline_lake, thermocline_fn from {}"
        ).format(role)
    )
    conn.execute(sql.SQL("revoke select on thermocline.cutline from {}").format(role))
    conn.execute(sql.SQL("revoke all on thermocline.retention from {}").format(role))
    conn.execute(sql.SQL("revoke usage on sequence thermocline.delta_version from {}").format(role))


def _remove_seam_schema(conn: Connection, schema: str) -> None:
    """Only the schema that registration made, and only when nothing else is in it."""
    if (
        conn.execute(_QUERIES["empty_seam_schema"], {"schema": schema, "comment": SEAM_SCHEMA_COMMENT}).fetchone()
        is not None
    ):
        conn.execute(sql.SQL("drop schema {}").format(sql.Identifier(schema)))


def _report(
    name: TableName,
    work: Unregistration | None,
    *,
    keep_lake: bool = False,
    attached: tuple[TableName, ...] = (),
    rows: int = 0,
    has_every_row: bool = False,
    leaving: LeavingRows | None = None,
) -> UnregisterReport:
    if work is None:
        return UnregisterReport(table=str(name), was_registered=False, removed=(), lake_kept_at=None)
    objects, table = work.objects, work.table
    lines: tuple[str, ...] = (
        f"seam {objects.seam}",
        f"foreign table {objects.lake}",
        f"delta {objects.delta}",
        f"spill {objects.spill}",
        "capture triggers and functions",
    )
    if not keep_lake:
        held = "and every row in it" if work.drop_lake else "(it held nothing)"
        lines = (*lines, f"lake table {table.lake_location} {held}")
    note = WHOLE_HEAP if has_every_row else ONLY_COPY
    return UnregisterReport(
        table=str(name),
        was_registered=True,
        removed=lines,
        lake_kept_at=table.lake_location if keep_lake else None,
        notes=(note,) if keep_lake else (),
        restored=tuple(str(partition) for partition in attached),
        rows_restored=rows,
        rows_in_lake=leaving.in_lake if leaving else None,
        rows_leaving=(0 if has_every_row else leaving.leaving) if leaving else None,
    )
