"""Truncation: a spanning table loses every row of both tiers, at one moment for every reader.

    claim and resolve → look at the lake → intent → lock out writers → empty heap and delta → commit an empty lake →
    publish

Invariant: heap, delta, S and the op's phase change in one Postgres transaction, so a reader sees all rows or none,
whatever its snapshot; that is why the heap's rows are deleted and not truncated, which would take them from older
snapshots as well. All that Postgres may refuse is done before the lake's commit. A truncation that died after that
commit is undone, not finished (`ops/resolve.py`): rows written since then were never meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from thermocline.catalog import journal, tables
from thermocline.catalog.database_identity import check_may_change_lakes
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine
from thermocline.core.op import TRUNCATE
from thermocline.errors import Fenced, NotTruncated
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, load_table
from thermocline.lake.commit.truncate import remove_every_row
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.ops.resolve import adopt_head, resolve_unfinished
from thermocline.ops.runner import WrittenOp, plan_table_op, run_op
from thermocline.ops.schema.follow_columns import check_followed, follow_schema
from thermocline.ops.spanning_table import SpanningTable, read_spanning
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.ops.wait_for_writer import wait_for_writer
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.truncation import count_rows, delete_all_rows, lock_against_writers, why_not_truncate


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateReport:
    """What went, or with `dry_run` what would: rows of the heap, corrections that waited, rows and files of the
    lake."""

    table: str
    heap_rows: int
    corrections: int
    lake_rows: int
    lake_files: int
    dry_run: bool = False
    snapshot: int | None = None
    op_id: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        verb = "would lose" if self.dry_run else "lost"
        return (
            f"{self.table} {verb} {self.heap_rows:,} rows of the heap, {self.corrections:,} corrections,"
            f" and {self.lake_rows:,} rows of the lake in {self.lake_files:,} files"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """One truncation under way: the connection that holds the table's lock, the table, and the lake as it was looked
    at."""

    conn: Connection
    dsn: str = field(repr=False)
    table: SpanningTable
    head: LakeHead
    cut: CutLine
    settings: Settings
    worker: str
    report_progress: ProgressReporter


def truncate(
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession],
    worker: str = "local",
    report_progress: ProgressReporter = no_progress,
    dry_run: bool = False,
) -> TruncateReport:
    """Remove every row of a spanning table. The table, its partitions, T, R and the lake's history of snapshots
    stay."""
    with connect(dsn, autocommit=True, application_name="thermocline truncate") as conn:
        registered = tables.find_table(conn, name)
        check_lakes_match_journal(conn)
        if dry_run:
            check_may_change_lakes(conn)
            journal.check_not_paused(conn, registered.id)
            return _preview(conn, _read_truncatable(conn, name))
        with wait_for_writer(lambda: journal.table_lock(conn, registered.id, str(name)), report_progress):
            # While it waited, a cycle may have followed new columns, or the table may have been registered again.
            locked_id, registered = registered.id, tables.find_table(conn, name)
            if registered.id != locked_id:
                raise Fenced(f"{name} was registered again meanwhile.")
            notes = follow_schema(conn, registered, settings)
            table = _read_truncatable(conn, name)
            cut = journal.claim(conn, table.registered.id)
            notes += resolve_unfinished(conn, table.registered, spark, cut.fence).notes
            cut = journal.read_cutline(conn, table.registered.id)
            head = load_table(spark(), TableName(registered.lake_namespace, registered.lake_name))
            cut = adopt_head(conn, table.registered, head, cut, worker)
            work = Truncation(
                conn=conn,
                dsn=dsn,
                table=table,
                head=head,
                cut=cut,
                settings=settings,
                worker=worker,
                report_progress=report_progress,
            )
            return _apply(work, notes)


def _read_truncatable(conn: Connection, name: TableName) -> SpanningTable:
    table = read_spanning(conn, name)
    if reason := why_not_truncate(conn, table.seam):
        raise NotTruncated(f"{name} is not truncated: {reason}.")
    return table


def _preview(conn: Connection, table: SpanningTable) -> TruncateReport:
    """What would go. It waits for no writer, and reads the lake's metadata file without Spark."""
    heap_rows, corrections = count_rows(conn, table.seam)
    location = lake_catalog().read_metadata_location(conn, table.registered.lake)
    current = read_lake_table(location).metadata.current_snapshot() if location else None
    rows, files = _totals(current.summary.additional_properties if current and current.summary else {})
    return TruncateReport(
        table=str(table.name),
        heap_rows=heap_rows,
        corrections=corrections,
        lake_rows=rows,
        lake_files=files,
        dry_run=True,
    )


def _lake_totals(head: LakeHead) -> tuple[int, int]:
    """Rows and data files of the head."""
    summaries = (
        found.get("summary", {})
        for found in head.metadata.get("snapshots", ())
        if found["snapshot-id"] == head.snapshot_id
    )
    return _totals(next(summaries, {}))


def _totals(summary: Mapping[str, str]) -> tuple[int, int]:
    """Rows and data files by a snapshot's own summary; rows that position deletes hide are not subtracted."""
    return int(summary.get("total-records", 0)), int(summary.get("total-data-files", 0))


def _apply(work: Truncation, notes: tuple[str, ...]) -> TruncateReport:
    work.report_progress(f"emptying {work.table.name}")
    op = plan_table_op(work.conn, work.table.registered, TRUNCATE, work.cut, work.worker)
    done = run_op(work.conn, op, work.head, partial(_empty, work))
    assert done is not None
    return replace(done.result, snapshot=done.snapshot, op_id=done.op_id, notes=notes)


def _empty(work: Truncation, _: OpStamp, held: ExitStack) -> WrittenOp[TruncateReport]:
    """Empty heap and delta in the transaction that publishes the empty lake as well."""
    conn, registered, seam = work.conn, work.table.registered, work.table.seam
    held.enter_context(
        short_locks(conn, work.settings.lock_timeout_ms, [registered.heap_oid], f"truncate {work.table.name}")
    )
    lock_against_writers(conn, seam)
    check_followed(conn, registered)
    emptied = delete_all_rows(conn, seam)
    if emptied.kept:
        raise NotTruncated(
            f"{work.table.name} is not truncated: a trigger of its own kept {emptied.kept:,} rows from being deleted."
        )
    fault_point("truncate-emptied")
    rows, files = _lake_totals(work.head)
    report = TruncateReport(
        table=str(work.table.name),
        heap_rows=emptied.heap_rows,
        corrections=emptied.corrections,
        lake_rows=rows,
        lake_files=files,
    )
    return WrittenOp(
        result=report,
        message=report.sentence,
        event=f"{report.sentence}.",
        commit=remove_every_row if files else None,
        counters={
            "heap_rows": report.heap_rows,
            "corrections": report.corrections,
            "rows": rows,
            "files_removed": files,
        },
    )
