"""Tiering: whole partitions behind the lag move from the heap to the lake, and leave the heap when no reader can miss
them.

    claim → observe and plan → make partitions → capture and move → drop → expire rows below the retention line
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from thermocline.catalog import journal, tables
from thermocline.catalog.pauses import note_cycle
from thermocline.core.axis import AXIS_MIN, render_axis
from thermocline.core.names import TableName
from thermocline.core.plan.cycle import CyclePlan, render_cycle
from thermocline.core.plan.premake import render_premake
from thermocline.core.plan.tier import render_left_in_heap, render_next
from thermocline.ops.resolve import resolve_unfinished
from thermocline.ops.retain import retain
from thermocline.ops.schema.follow_columns import follow_schema
from thermocline.ops.spanning_table import read_spanning
from thermocline.ops.tier.drop_partitions import drop_partitions
from thermocline.ops.tier.make_partitions import make_partitions
from thermocline.ops.tier.move_partitions import move_partitions, why_not_move
from thermocline.ops.tier.observe_table import observe
from thermocline.ops.tier.plan_cycle import plan_cycle
from thermocline.ops.tier.read_preview import read_preview
from thermocline.ops.tier.seam_literals import apply_lake_range, apply_seam_floor
from thermocline.ops.tier.tier_run import TierReport, TierRun
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.runtime.pg import connect
from thermocline.runtime.progress import ProgressReporter, no_progress
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.lost_captures import why_spill_capture_lost
from thermocline.seam.heap.partitions import capture_late_partition
from thermocline.seam.retention import read_retention_line


def tier(
    dsn: str,
    name: TableName,
    *,
    settings: Settings,
    spark: Callable[[], SparkSession],
    worker: str = "local",
    report_progress: ProgressReporter = no_progress,
    dry_run: bool = False,
    by_itself: bool = False,
) -> TierReport:
    """One tiering cycle of one table: what a dry run prints is what the cycle performs. `spark` is called for a session
    only when there is something to copy or to settle. `by_itself`: nobody asked for it, so a table that is not started
    moves, drops and expires nothing."""
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
                by_itself=by_itself,
                may_move=table.registered.is_started or not by_itself,
            )
            if not dry_run:
                cut = journal.claim(conn, table.registered.id)
                resolved = resolve_unfinished(conn, table.registered, spark, cut.fence)
                report.moved += resolved.moved
                report.notes += resolved.notes
                if reason := why_spill_capture_lost(conn, table.registered.id):
                    report.deferred.append(f"{table.name}: {reason}")
            plan = plan_cycle(work)
            report.plan = render_cycle(plan)
            if dry_run:
                report.preview = read_preview(conn, plan.seen, plan.tier)
                return report
            plan = _make_partitions(work, plan)
            _apply(work, plan)
            apply_lake_range(conn, table.seam, settings)
            apply_seam_floor(conn, table.seam, cut.fence, settings)
            _retain(work, plan)
            _note_cut_line(work)
            _note_cycle(work)
    return report


def _make_partitions(work: TierRun, plan: CyclePlan) -> CyclePlan:
    """Make the planned partitions; when there were some, the rest is planned again as a whole, with them in place."""
    make_partitions(work, plan)
    if not work.report.made:
        return plan
    work.report_progress(f"planned again, with {len(work.report.made)} new partitions in place")
    again = plan_cycle(work)
    made = render_premake(plan.premake, plan.seen.key_type)
    work.report.plan = (*made, *(step for step in render_cycle(again) if step not in made))
    return again


def _apply(work: TierRun, plan: CyclePlan) -> None:
    """Capture, move and drop as planned."""
    seen, tier = plan.seen, plan.tier
    for partition in tier.capture:
        line = read_retention_line(work.conn, work.table.registered.id)
        held = AXIS_MIN if line is None else line
        rows = capture_late_partition(work.conn, work.table.registered.id, partition, work.settings.lock_timeout_ms)
        work.report.notes.append(f"captured {rows} rows of {partition.name}, which was made below the cut-line")
        if partition.lo < held:
            below = render_axis(work.table.registered.key_type, held)
            work.report.notes.append(f"rows of {partition.name} below the retention line {below} stay expired")
    drop = tier.drop
    if tier.move and (reason := work.why_stopped() or why_not_move(work, seen, tier)):
        work.report.deferred.append(reason)
    elif tier.move:
        move_partitions(work, seen, tier)
        drop = (*tier.drop, *tier.drop_after_move)
    work.report.notes += tier.notes
    work.report.deferred += seen.waits
    drop_partitions(work, drop)


def _retain(work: TierRun, plan: CyclePlan) -> None:
    """Expire old rows of the lake, in a cycle that made no other commit. The line is planned again when a partition
    that was to be dropped is still there."""
    if reason := work.why_stopped():
        work.report.deferred += [reason] if reason not in work.report.deferred else []
    elif work.may_move and work.report.op_id is None:
        retained = retain(
            work.conn,
            work.dsn,
            work.table.registered,
            work.spark,
            work.settings,
            work.worker,
            by_itself=work.by_itself,
        )
        work.report.notes += retained.notes
        work.report.deferred += retained.waits
        work.report.retention_line, work.report.expired_files = retained.line, retained.files
        planned = plan.retention.line
        if planned is not None and retained.line != render_axis(work.table.registered.key_type, planned):
            work.report_progress(
                "the retention line was planned again: partitions that were to be dropped are still in the heap"
            )


def _note_cycle(work: TierRun) -> None:
    registered, report = work.table.registered, work.report
    seen = observe(work.conn, work.table)
    if report.moved and not registered.is_started and seen.mode.drops_partitions:
        report.notes += render_left_in_heap(seen)
    following = render_next(seen)
    note_cycle(work.conn, registered.id, report.sentence, deferred=report.deferred, next_step=following)


def _note_cut_line(work: TierRun) -> None:
    cut = journal.read_cutline(work.conn, work.table.registered.id)
    work.report.cut_line = render_axis(work.table.registered.key_type, cut.t)
    work.report.snapshot = cut.s
