"""Compaction: merge small files, rewrite files without their deleted rows, sort unsorted files.

    observe → plan → run bins as Spark tasks → commit finished bins as they arrive

Bins run concurrently with tiering and folding; only a commit takes the table's writer lock. A pass that is killed keeps
what it committed, and the janitor deletes the rest of its files.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from thermocline.core.maintenance.bins import CompactionPlan, plan_compaction
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.outcome import Outcome, Status
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.core.messages.progress import Progress
from thermocline.errors import ThermoclineError
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.commit.rewrite_files import read_data_entries, read_new_file_footer
from thermocline.lake.read.table_files import TableFiles
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.commits.maintenance_op import settle_lake_ops
from thermocline.maintain.commits.writer_lock import writer_lock
from thermocline.maintain.context import PassContext
from thermocline.maintain.operations.compaction_tasks import (
    NO_SNAPSHOT,
    check_format,
    plan_tasks,
    read_order,
    read_seen,
)
from thermocline.maintain.operations.replace_files import Finished, Replacing, staging_of
from thermocline.maintain.plans.partition_claims import partition_claims
from thermocline.maintain.plans.planning import Observed, Planned, PlanRequest, idle_plan, refused_plan
from thermocline.maintain.plans.safety import read_bounds_of
from thermocline.parquet.rewrite_task import BinResult
from thermocline.runtime.fault_points import fault_point
from thermocline.spark.jobs.compact import BinFailed, Kernel, run_bins
from thermocline.spark.kernels.compact_bin import run_bin

_COMMIT_EVERY_SECONDS = 30.0
_MOST_PICKED = 5_000
"""Manifest entries of at most so many files are held in the driver while their bins run, so that the commit need not
read them."""
_READ_AHEAD_THREADS = 2
"""Threads that read what the commit needs while bins run."""
_COUNTED = (
    *("files_merged", "files_written", "bins", "rows_read", "rows_written", "bytes_read", "bytes_written"),
    *("conflicts", "rebases", "files_reused", "commits"),
)


@dataclass(slots=True, kw_only=True)
class _Progress:
    """The results of the bins so far."""

    started: float
    pending: list[Finished] = field(default_factory=list)
    failures: list[ThermoclineError] = field(default_factory=list)
    paused: str | None = None
    last_commit: float = 0.0


def plan_compact(request: PlanRequest) -> Planned:
    """The bins of the table. A pass that runs concurrently with others locks the partitions of its bins first."""
    operation, context = request.operation, request.context
    head = load_table(context.spark(), context.target.name)
    try:
        check_format(head)
    except ThermoclineError as refusal:
        return Planned(plan=refused_plan(operation, head, Bounds(), refusal))
    bounds = read_bounds_of(context, head)
    if context.target.lake_id is not None and not context.dry_run:
        with writer_lock(context):
            settle_lake_ops(context)
        head = load_table(context.spark(), context.target.name)
    claims = request.held.enter_context(partition_claims(context))
    if head.snapshot_id is None:
        return Planned(plan=idle_plan(operation, head, bounds, NO_SNAPSHOT))
    try:
        order = read_order(head, context.policy)
        terms = order.clustering.terms if order.clustering is not None else ()
        files = TableFiles(order_ids=frozenset(term.field_id for term in terms))
        plan = plan_compaction(read_seen(files, head), context.policy, context.now, order.clustering)
        while claims is not None and claims.take(plan):
            head = load_table(context.spark(), context.target.name)
            plan = plan_compaction(read_seen(files, head), context.policy, context.now, order.clustering)
    except ThermoclineError as refusal:
        return Planned(plan=refused_plan(operation, head, bounds, refusal))
    plan = plan if claims is None else claims.within(plan)
    notes = (*((order.note,) if order.note else ()), *plan.details)
    return Planned(
        plan=MaintenancePlan(
            operation=operation,
            metadata_location=head.metadata_location,
            snapshot=head.snapshot_id,
            bounds=bounds,
            change=None if plan.is_empty else plan,
            idle=plan.sentence if plan.is_empty else None,
            notes=notes,
            idle_counters=dict.fromkeys(_COUNTED, 0),
        ),
        observed=Observed(head=head, files=files),
    )


def run_compact(applier: Applier, kernel: Kernel[BinResult] = run_bin) -> Outcome:
    """Rewrite the bins of the plan by the kernel; the outcome with its counters."""
    started, context, plan = time.monotonic(), applier.context, applier.plan.change
    head, files = applier.observed.head, applier.observed.files
    assert isinstance(plan, CompactionPlan)
    assert head is not None
    assert files is not None
    staging = staging_of(context)
    replacing = Replacing(applier=applier, plan=plan, files=files, staging=staging, last=plan.seen.snapshot_id)
    progress = _Progress(started=started, last_commit=started)
    with ThreadPoolExecutor(_READ_AHEAD_THREADS, thread_name_prefix="read-ahead") as pool:
        if plan.bins:
            leaving = [file for made in plan.bins for file in made.files]
            if len(leaving) <= _MOST_PICKED:
                replacing.picking = pool.submit(read_data_entries, head, leaving)
            _run_bins(context, head, plan, kernel, replacing, progress, pool)
        fault_point("compact-bins-written")
        if progress.pending or (plan.dangling and not replacing.commits):
            replacing.commit(progress.pending, plan.dangling)
    return _render_outcome(plan, replacing, progress, applier.plan.notes)


def _run_bins(
    context: PassContext,
    head: LakeHead,
    plan: CompactionPlan,
    kernel: Kernel[BinResult],
    replacing: Replacing,
    progress: _Progress,
    pool: ThreadPoolExecutor,
) -> None:
    """Run every bin; commit finished bins at intervals, so that a long pass keeps its progress."""
    bins = {made.number: made for made in plan.bins}
    total, share = (
        len(bins),
        sum(made.size_bytes for made in plan.bins) / max(context.policy.partial_progress_commits, 1),
    )

    def is_over() -> bool:
        progress.paused = context.why_pause()
        return progress.paused is not None

    tasks = plan_tasks(context, head, plan)
    parallel = context.policy.max_parallel_tasks
    results = run_bins(
        context.spark(),
        replacing.staging,
        tasks,
        kernel,
        parallel=parallel,
        is_over=is_over,
        pace=context.pace,
    )
    started_at, read_bytes, all_bytes = datetime.now(UTC), 0, sum(made.size_bytes for made in plan.bins)
    for done, result in enumerate(results, start=1):
        read_bytes += bins[result.number].size_bytes
        context.report_progress(
            Progress(
                phase=f"compact bin {done}/{total}",
                done=read_bytes,
                total=all_bytes,
                unit="bytes",
                started_at=started_at,
                at=datetime.now(UTC),
            )
        )
        if isinstance(result, BinFailed):
            progress.failures.append(result.reason)
            continue
        fault_point("compact-bin")
        progress.pending.append(Finished(bin=bins[result.number], result=result))
        replacing.measuring |= {
            file.path: pool.submit(read_new_file_footer, head, file.path) for file in result.outputs
        }
        waiting = sum(found.bin.size_bytes for found in progress.pending)
        if done < total and waiting >= share and time.monotonic() - progress.last_commit >= _COMMIT_EVERY_SECONDS:
            replacing.commit(progress.pending)
            progress.pending, progress.last_commit = [], time.monotonic()
            replacing.measuring.clear()


def _render_outcome(plan: CompactionPlan, replacing: Replacing, progress: _Progress, notes: tuple[str, ...]) -> Outcome:
    done = replacing.committed
    merged = sum(len(found.bin.files) for found in done)
    written = sum(len(found.result.outputs) for found in done)
    counters = {
        "files_merged": merged,
        "files_written": written,
        "bins": len(done),
        "duration_ms": int((time.monotonic() - progress.started) * 1000),
        "rows_read": sum(found.result.rows_read for found in done),
        "rows_written": sum(found.result.rows_written for found in done),
        "bytes_read": sum(found.result.bytes_read for found in done),
        "bytes_written": sum(found.result.bytes_written for found in done),
        "conflicts": replacing.conflicts,
        "rebases": replacing.rebases,
        "files_reused": replacing.files_reused,
        "commits": replacing.commits,
        "rewritten_files": merged,
        "added_files": written,
        "delete_compacted_files": sum(found.bin.in_debt for found in done),
        "removed_delete_files": replacing.deletes_dropped,
    }
    problems = (*(str(failure) for failure in progress.failures), *dict.fromkeys(replacing.refused))
    status: Status = "done"
    sentence = f"compacted {merged} files into {written} (across {len(done)} bins)"
    if plan.clustering is not None:
        sentence += f" using {plan.clustering.render()}"
    if not done and replacing.commits:
        sentence = f"removed {replacing.deletes_dropped} dangling delete file(s)"
    elif not done:
        status = "failed" if problems or progress.paused is None else "paused"
        sentence = problems[0] if problems else progress.paused or plan.sentence
    elif progress.paused is not None:
        status, sentence = "paused", f"{progress.paused}; {sentence}"
    remarks = tuple(dict.fromkeys(found.result.note for found in done if found.result.note))
    return Outcome(
        operation="compact", status=status, sentence=sentence, counters=counters, details=(*problems, *remarks, *notes)
    )
