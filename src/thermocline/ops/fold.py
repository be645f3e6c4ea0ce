"""Folding: corrections that wait in the delta move into the lake, new images and deletes of old ones in one commit.

    claim and resolve → look at the lake → intent → snapshot and plan → write and check → commit → publish and mark →
    purge

Nothing here waits for readers or writers. A reader keeps the S and the delta its snapshot shows; a correction that
changed since it was read, or that a writer has locked, is not marked and stays pending. Marked rows stay in the delta
until no snapshot predates their publication, so that a writer that began before it still finds the image it must not
overwrite.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from thermocline.catalog import journal, tables
from thermocline.catalog.health.waiting_corrections import note_waiting
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.lake_file import FileBounds
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine
from thermocline.core.op import FOLD
from thermocline.core.plan.fold import (
    MAX_ROWS,
    FoldPlan,
    find_files_in_range,
    plan_folding,
    plan_range_rows,
    render_fold_plan,
)
from thermocline.errors import ChecksumMismatch, SchemaNotFollowed, UnrepresentableValue
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, apply_row_delta, load_table
from thermocline.ops.data_files import read_files
from thermocline.ops.move_report import MoveReport
from thermocline.ops.resolve import adopt_head, resolve_unfinished
from thermocline.ops.runner import DoneOp, WrittenOp, plan_table_op, run_op
from thermocline.ops.schema.follow_columns import check_followed, follow_schema
from thermocline.ops.spanning_table import SpanningTable, objects_of, read_spanning
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import Meter, ProgressReporter, no_progress
from thermocline.runtime.settings import Settings
from thermocline.seam.delta import (
    apply_marks,
    apply_purge,
    count_pending,
    lock_for_publication,
    pending_condition,
    read_edges,
    read_inexact_keys,
    read_waiting,
)
from thermocline.seam.heap.exported_snapshot import ExportedSnapshot, export_snapshot
from thermocline.seam.heap.older_readers import why_older_readers
from thermocline.seam.heap.unrepresentable_values import read_key_of_value
from thermocline.spark.jobs.fold import FoldResult, fold_delta
from thermocline.spark.kernels.fold_key_equality import FoldKey
from thermocline.spark.kernels.fold_range import FoldTask


@dataclass(slots=True, kw_only=True)
class FoldReport(MoveReport):
    """What one fold did to one table; `rows` corrections went, `replaced` old images were deleted in the lake."""

    idle = "nothing to fold"

    images: int = 0
    replaced: int = 0
    commits: int = 0
    left: int = 0
    purged: int = 0
    seconds: float = 0.0
    peak_task_bytes: int = 0

    @property
    def rows_per_second(self) -> float:
        return round(self.rows / self.seconds, 1) if self.seconds else 0.0

    def done(self) -> list[str]:
        done = []
        if self.commits:
            done.append(
                f"folded {self.rows:,} corrections ({self.images:,} images, {self.replaced:,} rows replaced "
                "or deleted in the lake)"
                f" at {self.rows_per_second:,.0f} rows/s"
            )
        if self.left:
            done.append(f"{self.left:,} corrections wait")
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldRun:
    """One fold under way: the connection that holds the table's lock, the table, its cut-line, and where Spark comes
    from."""

    conn: Connection
    dsn: str = field(repr=False)
    table: SpanningTable
    cut: CutLine
    spark: Callable[[], SparkSession]
    settings: Settings
    worker: str
    report_progress: ProgressReporter
    report: FoldReport


def fold(
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession],
    worker: str = "local",
    report_progress: ProgressReporter = no_progress,
    dry_run: bool = False,
    drain: bool = True,
    max_rows: int = MAX_ROWS,
) -> FoldReport:
    """Fold what waits below the cut-line: commit by commit until nothing is left, or one commit when not to `drain`."""
    report = FoldReport(table=str(name), dry_run=dry_run)
    with connect(dsn, autocommit=True, application_name="thermocline fold") as conn:
        registered = tables.find_table(conn, name)
        check_lakes_match_journal(conn)
        with journal.table_lock(conn, registered.id, str(name)):
            report.notes += () if dry_run else follow_schema(conn, registered, settings)
            table = read_spanning(conn, name)
            cut = journal.read_cutline(conn, table.registered.id)
            if dry_run:
                pending = _count(conn, table, cut)
                edges = read_edges(conn, table.seam, cut.t, plan_range_rows(pending, 1))
                plan = plan_folding(name, pending, edges, cut.t, max_rows)
                report.plan, report.left = render_fold_plan(plan, table.registered.key_type), pending
                return report
            cut = journal.claim(conn, table.registered.id)
            report.notes += resolve_unfinished(conn, table.registered, spark, cut.fence).notes
            while True:
                cut = journal.read_cutline(conn, table.registered.id)
                work = FoldRun(
                    conn=conn,
                    dsn=dsn,
                    table=table,
                    cut=cut,
                    spark=spark,
                    settings=settings,
                    worker=worker,
                    report_progress=report_progress,
                    report=report,
                )
                _purge(work)
                folded = _fold_once(work, max_rows)
                if not (folded and drain and report.left):
                    break
            _purge(work)
        note_fold_work(conn, registered)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldWork:
    """What there is to fold or to purge: corrections that wait, for how long some of them do, and folds whose marks are
    still there."""

    waiting: int
    waiting_seconds: float
    unpurged: int


def note_fold_work(conn: Connection, registered: RegisteredTable) -> FoldWork:
    """Count what waits, and record it: `/metrics` and the checks of health read the record."""
    cut = journal.read_cutline(conn, registered.id)
    waiting = read_waiting(conn, objects_of(registered).delta, registered.tier_key, registered.key_type, cut.t)
    seconds = note_waiting(conn, registered.id, waiting)
    return FoldWork(
        waiting=waiting.rows, waiting_seconds=seconds, unpurged=len(journal.read_unpurged(conn, registered.id))
    )


def _count(conn: Connection, table: SpanningTable, cut: CutLine) -> int:
    return count_pending(conn, table.seam.objects.delta, table.seam.tier_key, table.seam.key_type, cut.t)


def _fold_once(work: FoldRun, max_rows: int) -> bool:
    """One commit; whether there was anything to fold."""
    pending = _count(work.conn, work.table, work.cut)
    work.report.left = pending
    if not pending:
        return False
    started = time.monotonic()
    registered = work.table.registered
    head = load_table(work.spark(), TableName(registered.lake_namespace, registered.lake_name))
    work = replace(work, cut=adopt_head(work.conn, registered, head, work.cut, work.worker))
    op = plan_table_op(work.conn, registered, FOLD, work.cut, work.worker)
    done = run_op(work.conn, op, head, partial(_write, work, head, pending, max_rows))
    if done is None:
        return False
    _report(work, done)
    work.report.seconds += time.monotonic() - started
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folded:
    """What one commit took, as its counters, and how many corrections wait for the next one."""

    counters: dict[str, int]
    left: int


def _write(
    work: FoldRun, head: LakeHead, expected: int, max_rows: int, stamp: OpStamp, _: ExitStack
) -> WrittenOp[_Folded] | None:
    """Write the new images and the deletes of the old ones; None when nothing waits any more."""
    with closing(export_snapshot(work.dsn, [work.table.seam.objects.delta], work.settings.lock_timeout_ms)) as snapshot:
        check_followed(work.conn, work.table.registered)
        plan = _plan(work, snapshot, expected, max_rows)
        if not plan.ranges:
            return None
        done = _run_tasks(work, _tasks(work, head, stamp, snapshot, plan), plan.rows)
    counters = {
        "rows": len(done.versions),
        "images": done.heap.rows,
        "replaced": sum(delete.rows for delete in done.deletes),
        "files": len(done.files) + len(done.deletes),
        "bytes": done.size_bytes,
        "peak_task_bytes": done.peak_bytes,
    }
    message = f"folded {counters['rows']:,} corrections into the lake"
    return WrittenOp(
        result=_Folded(counters=counters, left=plan.left),
        message=message,
        event=f"{work.table.name}: {message}.",
        commit=partial(_commit, done) if done.files or done.deletes else None,
        paths=done.paths,
        counters=counters,
        lock=lambda: lock_for_publication(work.conn, work.table.seam.objects.spill),
        mark=lambda: _mark(work, done),
    )


def _commit(done: FoldResult, head: LakeHead, stamp: OpStamp) -> int:
    return apply_row_delta(head, done.files, done.deletes, stamp)


def _report(work: FoldRun, done: DoneOp[_Folded]) -> None:
    report, counters = work.report, done.result.counters
    report.commits += 1
    report.rows += counters["rows"]
    report.images += counters["images"]
    report.replaced += counters["replaced"]
    report.files += counters["files"]
    report.bytes += counters["bytes"]
    report.peak_task_bytes = max(report.peak_task_bytes, counters["peak_task_bytes"])
    report.left = done.result.left
    report.snapshot, report.op_id = done.snapshot, done.op_id


def _plan(work: FoldRun, snapshot: ExportedSnapshot, expected: int, max_rows: int) -> FoldPlan:
    """What waits at the snapshot, in pieces; about as much as was counted before."""
    seam = work.table.seam
    parallelism = work.spark().sparkContext.defaultParallelism
    edges = read_edges(snapshot.conn, seam, work.cut.t, plan_range_rows(expected, parallelism))
    pending = sum(edge.rows for edge in edges)
    plan = plan_folding(seam.objects.heap, pending, edges, work.cut.t, max_rows)
    work.report.plan = render_fold_plan(plan, seam.key_type)
    work.report_progress(f"folding {plan.rows:,} of {pending:,} corrections in {len(plan.ranges)} tasks")
    return plan


def _run_tasks(work: FoldRun, tasks: list[FoldTask], rows: int) -> FoldResult:
    """Fold on Spark, and compare what was read with what was written."""
    meter = Meter(work.report_progress, f"folding {work.table.name}", rows, "rows")
    try:
        done = fold_delta(work.spark(), tasks, lambda completed: meter.note(rows * completed // len(tasks)))
        meter.note(rows)
    except UnrepresentableValue as refusal:
        raise _with_row(work, refusal) from None
    if not done.is_exact:
        raise ChecksumMismatch(
            f"{work.table.name}: the delta has {done.heap.rows:,} images, the lake files {done.lake.rows:,}, "
            "and their checksums differ."
        )
    return done


def _with_row(work: FoldRun, refusal: UnrepresentableValue) -> UnrepresentableValue:
    """The refusal with the table and the correction that holds the value."""
    key = read_key_of_value(work.conn, work.table.heap, work.table.seam.objects.delta, refusal.column, refusal.value)
    where = f"{work.table.name}, row {key}" if key else str(work.table.name)
    return UnrepresentableValue(f"{where}: {refusal}", column=refusal.column, value=refusal.value)


def _tasks(work: FoldRun, head: LakeHead, stamp: OpStamp, snapshot: ExportedSnapshot, plan: FoldPlan) -> list[FoldTask]:
    registered, seam = work.table.registered, work.table.seam
    inexact = read_inexact_keys(work.conn, seam)
    types = {column.name: column.pg_type for column in registered.columns}
    collations = {column.name: column.collation for column in seam.heap.columns}
    key = tuple(
        FoldKey(
            name=column.name,
            is_exact=column.name not in inexact,
            pg_type=types[column.name],
            collation=collations[column.name],
            operator_schema=column.operator_schema,
            operator=column.operator,
        )
        for column in work.table.heap.primary_key
    )
    files = read_files(
        head, next(column.field_id for column in registered.columns if column.name == registered.tier_key)
    )
    bounds = [FileBounds(path=file.path, lower=file.lower_key, upper=file.upper_key) for file in files]
    by_path = {file.path: file for file in files}
    return [
        FoldTask(
            dsn=work.dsn,
            table_id=registered.id,
            op_id=stamp.op_id,
            number=number,
            delta=seam.objects.delta,
            condition=pending_condition(seam, part),
            snapshot_name=snapshot.name,
            columns=registered.columns,
            key=key,
            tier_key=registered.tier_key,
            lake_partition=head.partition,
            directory=head.location,
            files=tuple(by_path[file.path] for file in find_files_in_range(part, bounds)),
            target_file_bytes=work.settings.target_file_bytes,
        )
        for number, part in enumerate(plan.ranges)
    ]


def _mark(work: FoldRun, done: FoldResult) -> None:
    """Mark what was folded. Where the columns changed since it was read, nothing is marked: it reads the same, and is
    folded again."""
    try:
        check_followed(work.conn, work.table.registered)
    except SchemaNotFollowed as changed:
        work.report.notes.append(f"nothing was marked as folded: {str(changed).rstrip('.')}")
        return
    if reason := apply_marks(
        work.conn, work.table.seam, done.version_runs, keep_spill=work.table.registered.mode.heap_is_complete
    ):
        work.report.notes.append(reason)


def _purge(work: FoldRun) -> None:
    """Delete the marked rows of folds that no live snapshot predates."""
    work.report.deferred.clear()
    for op_id, xid in journal.read_unpurged(work.conn, work.table.registered.id):
        if reason := why_older_readers(work.conn, xid, work.settings.standby_grace_seconds):
            work.report.deferred.append(f"folded corrections stay in the delta for now: {reason}")
            return
        purged, is_done = apply_purge(work.conn, work.table.seam, xid)
        work.report.purged += purged
        if is_done:
            journal.note_purged(work.conn, op_id, work.cut.fence)
        fault_point("fold-purged")
