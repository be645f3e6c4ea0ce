"""Tiering: whole partitions behind the lag move from the heap to the lake, and leave the heap when no reader can miss
them.

    look and claim → raise the seam's line → seal → look at the lake → intent → copy and check → commit → publish → drop

Every arrow is a place where the process may be killed; `ops/resolve.py` decides at the next start each op that was
begun.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial

import psycopg
from pyspark.sql import SparkSession

from thermocline.catalog import journal, tables
from thermocline.catalog.pauses import note_cycle
from thermocline.core.axis import AXIS_MIN, render_axis
from thermocline.core.names import TableName
from thermocline.core.observation import TableObservation
from thermocline.core.op import TIER
from thermocline.core.plan.jumps import render_cutline_jump
from thermocline.core.plan.premake import plan_premake, render_premake
from thermocline.core.plan.tier import TierPlan, plan_tiering, render_next, render_plan
from thermocline.errors import ChecksumMismatch, LockNotGranted, PartitionGone, TryAgainError, UnrepresentableValue
from thermocline.lake.commit.compare_and_swap import (
    KeyRange,
    LakeHead,
    OpStamp,
    append_range,
    apply_row_delta,
    load_table,
)
from thermocline.ops.admin.pins import why_pinned
from thermocline.ops.move_report import MoveReport
from thermocline.ops.resolve import adopt_head, resolve_unfinished
from thermocline.ops.retain import retain
from thermocline.ops.runner import WrittenOp, plan_table_op, run_op
from thermocline.ops.schema.follow_columns import check_followed, follow_schema
from thermocline.ops.spanning_table import SpanningTable, read_spanning
from thermocline.ops.tier.adopted_lake import (
    RemovedRows,
    find_equal_partitions,
    is_adopting,
    limit_to_adopted,
    write_removals,
)
from thermocline.ops.tier.jumps import read_jump
from thermocline.ops.tier.seam_literals import apply_seam_floor, apply_seam_line
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.parquet.encode.lake_writer import WrittenFile
from thermocline.parquet.values.row_checksum import HASH_VERSION
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.exported_snapshot import ExportedSnapshot, export_snapshot
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.lost_captures import why_spill_capture_lost
from thermocline.seam.heap.older_readers import why_not_drop
from thermocline.seam.heap.partitions import (
    apply_discovery,
    apply_drop,
    apply_rows,
    apply_seal,
    apply_state,
    capture_late_partition,
    read_now,
    read_partition_observations,
    read_passed,
)
from thermocline.seam.heap.premake import REFUSED_BY_TRIGGERS, apply_premake, read_grid
from thermocline.seam.heap.unrepresentable_values import read_key_of_value
from thermocline.seam.retention import read_retention_line
from thermocline.seam.spill import count_uncaptured
from thermocline.spark.jobs.copy import CopyResult, copy_partition, plan_block_ranges
from thermocline.spark.kernels.copy_partition import CopyTask


@dataclass(slots=True, kw_only=True)
class TierReport(MoveReport):
    """What one tiering cycle did to one table."""

    moved: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    retention_line: str | None = None
    expired_files: int = 0
    cut_line: str = ""

    def done(self) -> list[str]:
        done = []
        if self.made:
            done.append(f"made {', '.join(self.made)} ahead")
        if self.moved:
            done.append(
                f"moved {len(self.moved)} partition{'s' * (len(self.moved) > 1)} ({self.rows:,} rows, "
                f"{self.files} files) to the lake"
            )
        if self.dropped:
            done.append(f"dropped {', '.join(self.dropped)} from the heap")
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRun:
    """One cycle under way: the connection that holds the table's lock, the table, and where Spark comes from."""

    conn: Connection
    dsn: str = field(repr=False)
    table: SpanningTable
    spark: Callable[[], SparkSession]
    settings: Settings
    worker: str
    report_progress: ProgressReporter
    report: TierReport


def tier(
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession],
    worker: str = "local",
    report_progress: ProgressReporter = no_progress,
    dry_run: bool = False,
) -> TierReport:
    """One tiering cycle of one table; `spark` is asked for a session only when there is something to copy or to
    settle."""
    report = TierReport(table=str(name), dry_run=dry_run)
    with connect(dsn, autocommit=True, application_name="thermocline tier") as conn:
        registered = tables.find_table(conn, name)
        check_lakes_match_journal(conn)
        with journal.table_lock(conn, registered.id, str(name)):
            followed = () if dry_run else follow_schema(conn, registered, settings)
            report.notes += followed
            table = read_spanning(conn, name)
            work = TierRun(
                conn=conn,
                dsn=dsn,
                table=table,
                spark=spark,
                settings=settings,
                worker=worker,
                report_progress=report_progress,
                report=report,
            )
            if not dry_run:
                cut = journal.claim(conn, table.registered.id)
                resolved = resolve_unfinished(conn, table.registered, spark, cut.fence)
                report.moved += resolved.moved
                report.notes += resolved.notes
                if reason := why_spill_capture_lost(conn, table.registered.id):
                    report.deferred.append(f"{table.name}: {reason}")
            ahead = _premake(work)
            seen = observe(work)
            plan = plan_tiering(seen)
            report.plan = (*ahead, *render_plan(seen, plan))
            if dry_run:
                return report
            _apply(work, seen, plan)
            apply_seam_floor(conn, table.seam, cut.fence, settings)
            _retain(work)
            _note_cut_line(work)
            _note_cycle(work)
    return report


def observe(work: TierRun) -> TableObservation:
    """The table as it stands: its partitions (new ones recorded) and its cut-line."""
    conn, registered = work.conn, work.table.registered
    partitions = read_partitions(conn, work.table.heap, registered.key_type)
    states = apply_discovery(conn, registered.id, partitions)
    cut = journal.read_cutline(conn, registered.id)
    found = read_partition_observations(conn, partitions, states, cut.t)
    jump = read_jump(conn, work.table, found, cut)
    lags = (registered.tiering_lag, registered.reclaim_lag)
    return TableObservation(
        table=registered.name,
        key_type=registered.key_type,
        cut=cut,
        partitions=read_passed(conn, work.table.seam, found, lags, None if jump is None else jump.to),
        mode=registered.mode,
        now=read_now(conn, registered.key_type),
        tiering_lag=registered.tiering_lag,
        reclaim_lag=registered.reclaim_lag,
        waits=() if jump is None else (render_cutline_jump(registered.key_type, str(registered.name), jump),),
    )


def _premake(work: TierRun) -> tuple[str, ...]:
    """Keep partitions ready above the newest row. One that cannot be made now is put off; tiering goes on."""
    registered, seam = work.table.registered, work.table.seam
    partitions = read_partitions(work.conn, work.table.heap, registered.key_type)
    if not registered.premake or not partitions:
        return ()
    cut = journal.read_cutline(work.conn, registered.id)
    plan = plan_premake(read_grid(work.conn, seam, partitions, cut.t, registered.partition_width), registered.premake)
    if work.report.dry_run:
        return render_premake(plan, registered.key_type)
    work.report.notes += plan.notes
    for new in plan.make:
        try:
            name, rows = apply_premake(work.conn, seam, new, partitions[-1].name.schema, work.settings.lock_timeout_ms)
        except (LockNotGranted, *REFUSED_BY_TRIGGERS) as problem:
            work.report.deferred.append(
                f"partition {new.name} is made in a later cycle ({str(problem).splitlines()[0].rstrip('.')})"
            )
            break
        fault_point("premade")
        work.report.made.append(str(name))
        carried = f" and {rows:,} rows moved into it from the spill" if rows else ""
        tables.insert_event(work.conn, registered.id, "premake", f"{registered.name}: {name} was made ahead{carried}.")
    return ()


def _apply(work: TierRun, seen: TableObservation, plan: TierPlan) -> None:
    for partition in plan.capture:
        line = read_retention_line(work.conn, work.table.registered.id)
        held = AXIS_MIN if line is None else line
        rows = capture_late_partition(work.conn, work.table.registered.id, partition, work.settings.lock_timeout_ms)
        work.report.notes.append(f"captured {rows} rows of {partition.name}, which was made below the cut-line")
        if partition.lo < held:
            below = render_axis(work.table.registered.key_type, held)
            work.report.notes.append(f"rows of {partition.name} below the retention line {below} stay expired")
    if plan.move and (reason := _why_not_move(work, seen, plan)):
        work.report.deferred.append(reason)
    elif plan.move:
        _move(work, seen, limit_to_adopted(work.table.registered, plan, seen.cut.t))
        seen = observe(work)
        plan = plan_tiering(seen)
    work.report.notes += plan.notes
    work.report.deferred += seen.waits
    _drop(work, plan)


def _why_not_move(work: TierRun, seen: TableObservation, plan: TierPlan) -> str | None:
    """Rows of the spill that were not captured are read from the heap as long as T lies below them, and from nowhere
    afterwards."""
    if why_spill_capture_lost(work.conn, work.table.registered.id) is None:
        return None
    if not (hidden := count_uncaptured(work.conn, work.table.seam, seen.cut.t, plan.new_t)):
        return None
    line = render_axis(seen.key_type, plan.new_t)
    lost = f"{hidden:,} rows of the spill below {line} were not captured and would be hidden"
    return f"nothing moves, for {lost}: run `thermocline verify --repair`"


def _move(work: TierRun, seen: TableObservation, plan: TierPlan) -> None:
    conn, registered = work.conn, work.table.registered
    spark = work.spark()
    apply_seam_line(conn, work.table.seam, seen.cut, plan.new_t, work.settings)
    fault_point("line-raised")
    for partition in plan.move:
        work.report_progress(f"sealing {partition.name}")
        apply_seal(conn, work.table.seam, partition, seen.cut.t, work.settings.lock_timeout_ms)
        fault_point("sealed")
    head = load_table(spark, TableName(registered.lake_namespace, registered.lake_name))
    seen = replace(seen, cut=adopt_head(conn, registered, head, seen.cut, work.worker))
    op = plan_table_op(conn, registered, TIER, seen.cut, work.worker, t=plan.new_t)
    done = run_op(conn, op, head, partial(_write, work, seen, plan, head))
    assert done is not None
    report, counters = work.report, done.result
    report.moved += [str(partition.name) for partition in plan.move]
    report.rows, report.files, report.bytes = counters["rows"], counters["files"], counters["bytes"]
    report.snapshot, report.op_id = done.snapshot, done.op_id


def _write(
    work: TierRun, seen: TableObservation, plan: TierPlan, head: LakeHead, stamp: OpStamp, held: ExitStack
) -> WrittenOp[dict[str, int]]:
    """Copy the partitions at one snapshot, whose locks keep them attached until the move is published."""
    registered = work.table.registered
    apply_state(work.conn, registered.id, [p.oid for p in plan.move], "tiering")
    snapshot = export_snapshot(work.dsn, [p.name for p in plan.move], work.settings.lock_timeout_ms)
    held.enter_context(closing(snapshot))
    check_followed(work.conn, registered)
    _check_attached(work, plan)
    taking_up = is_adopting(registered, seen.cut.t)
    leaving = RemovedRows()
    try:
        known = find_equal_partitions(head, work.dsn, registered, plan.move, snapshot) if taking_up else {}
        copied = _copy(work, plan, head, stamp, snapshot, known)
        if taking_up:
            same = [partition for partition in plan.move if partition.oid in known]
            leaving = write_removals(head, work.dsn, registered, stamp.op_id, (seen.cut.t, plan.new_t), same)
            work.report.notes += [f"the lake held {partition.name} already" for partition in same]
    except UnrepresentableValue as refusal:
        raise _with_row(work, plan, refusal) from None
    fault_point("copied")
    files = [file for result in copied for file in result.files]
    counters = {
        "rows": sum(result.heap.rows for result in copied),
        "files": len(files),
        "bytes": sum(file.size_bytes for file in files),
        "partitions": len(plan.move),
        "peak_task_bytes": max(result.peak_bytes for result in copied),
    }
    line = render_axis(registered.key_type, plan.new_t)
    message = f"moved {counters['rows']:,} rows of {len(plan.move)} partitions; the cut-line is at {line}"
    taken = KeyRange(column=registered.tier_key, low=seen.cut.t, high=plan.new_t)
    return WrittenOp(
        result=counters,
        message=message,
        event=f"{registered.name}: {message}.",
        commit=partial(_commit, files, leaving, None if taking_up else taken)
        if files or not leaving.is_nothing
        else None,
        paths=[*(file.path for file in files), *(delete.path for delete in leaving.deletes)],
        counters=counters | {"sums": _sums(plan, copied)},
    )


def _commit(
    files: Sequence[WrittenFile], leaving: RemovedRows, taken: KeyRange | None, head: LakeHead, stamp: OpStamp
) -> int:
    """Append what was copied; a lake that is taken up loses in the same commit what the heap has otherwise."""
    if taken is None:
        return apply_row_delta(head, files, leaving.deletes, stamp, remove=leaving.remove)
    return append_range(head, files, stamp, taken)


def _check_attached(work: TierRun, plan: TierPlan) -> None:
    """Refuse to copy what is no longer the table's; the snapshot's locks keep the rest attached from here on."""
    attached = {
        (p.oid, p.name, p.lo, p.hi) for p in read_partitions(work.conn, work.table.heap, work.table.registered.key_type)
    }
    if gone := next((p for p in plan.move if (p.oid, p.name, p.lo, p.hi) not in attached), None):
        raise PartitionGone(
            f"{gone.name} was detached from {work.table.name} or replaced while it was sealed; the next cycle "
            "looks again."
        )
    journal.check_seals(work.conn, work.table.registered.id, plan.new_t)


def _copy(
    work: TierRun,
    plan: TierPlan,
    head: LakeHead,
    stamp: OpStamp,
    snapshot: ExportedSnapshot,
    held: Mapping[int, CopyResult],
) -> list[CopyResult]:
    registered = work.table.registered
    results: list[CopyResult] = []
    for partition in plan.move:
        if (known := held.get(partition.oid)) is not None:
            apply_rows(work.conn, registered.id, partition.oid, known.heap.rows)
            results.append(known)
            continue
        ranges = plan_block_ranges(snapshot.sizes[partition.name], work.spark().sparkContext.defaultParallelism)
        work.report_progress(
            f"copying {partition.name}: {snapshot.sizes[partition.name]:,} bytes in {len(ranges)} tasks"
        )
        result = copy_partition(
            work.spark(),
            [
                CopyTask(
                    dsn=work.dsn,
                    table_id=registered.id,
                    op_id=stamp.op_id,
                    number=number,
                    partition=partition.name,
                    snapshot_name=snapshot.name,
                    lo_block=lo,
                    hi_block=hi,
                    columns=registered.columns,
                    tier_key=registered.tier_key,
                    lake_partition=head.partition,
                    directory=head.location,
                    target_file_bytes=work.settings.target_file_bytes,
                    memory_bytes=work.settings.copy_memory_bytes,
                )
                for number, (lo, hi) in enumerate(ranges, len(results) * 100_000)
            ],
        )
        if not result.is_exact:
            raise ChecksumMismatch(
                f"Partition {partition.name}: the heap has {result.heap.rows:,} rows, the lake files "
                f"{result.lake.rows:,},"
                " and their checksums differ."
            )
        apply_rows(work.conn, registered.id, partition.oid, result.heap.rows)
        results.append(result)
    return results


def _with_row(work: TierRun, plan: TierPlan, refusal: UnrepresentableValue) -> UnrepresentableValue:
    """The refusal with the table and the row that holds the value."""
    for partition in plan.move:
        if key := read_key_of_value(work.conn, work.table.heap, partition.name, refusal.column, refusal.value):
            return UnrepresentableValue(
                f"{partition.name}, row {key}: {refusal}", column=refusal.column, value=refusal.value
            )
    return UnrepresentableValue(f"{work.table.name}: {refusal}", column=refusal.column, value=refusal.value)


def _sums(plan: TierPlan, copied: list[CopyResult]) -> list[dict[str, object]]:
    """What went into the files of each partition, for `verify`: in the order in which the tasks' files are numbered."""
    return [
        {
            "partition": str(partition.name),
            "rows": result.lake.rows,
            "total": str(result.lake.total),
            "files": len(result.files),
            "hash": HASH_VERSION,
        }
        for partition, result in zip(plan.move, copied, strict=True)
    ]


def _drop(work: TierRun, plan: TierPlan) -> None:
    registered, report = work.table.registered, work.report
    for partition in plan.drop:
        # Pins last: whoever read T under a snapshot that is over by now has committed the pin.
        reason = why_not_drop(work.conn, registered.id, partition.oid, work.settings.standby_grace_seconds)
        if reason := reason or why_pinned(work.conn, registered.id, partition, work.settings.lock_timeout_ms):
            report.deferred.append(f"{partition.name} stays in the heap for now: {reason}")
            continue
        try:
            apply_drop(
                work.conn, registered.name, registered.heap_oid, registered.id, partition, work.settings.lock_timeout_ms
            )
        except (TryAgainError, psycopg.errors.DependentObjectsStillExist) as problem:
            report.deferred.append(
                f"{partition.name}: data is safe; DROP retries next cycle ({str(problem).splitlines()[0]})"
            )
            continue
        fault_point("dropped")
        tables.insert_event(work.conn, registered.id, "drop", f"{registered.name}: {partition.name} left the heap.")
        report.dropped.append(str(partition.name))


def _retain(work: TierRun) -> None:
    """Expire old rows of the lake, in a cycle that made no other commit."""
    if work.report.op_id is None:
        retained = retain(work.conn, work.dsn, work.table.registered, work.spark, work.settings, work.worker)
        work.report.notes += retained.notes
        work.report.deferred += retained.waits
        work.report.retention_line, work.report.expired_files = retained.line, retained.files


def _note_cycle(work: TierRun) -> None:
    registered, report = work.table.registered, work.report
    following = render_next(observe(work))
    note_cycle(work.conn, registered.id, report.sentence, deferred=report.deferred, next_step=following)


def _note_cut_line(work: TierRun) -> None:
    cut = journal.read_cutline(work.conn, work.table.registered.id)
    work.report.cut_line = render_axis(work.table.registered.key_type, cut.t)
    work.report.snapshot = cut.s
