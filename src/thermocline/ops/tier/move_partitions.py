"""Move partitions to the lake in one commit.

    raise the seam's line → seal → look at the lake → intent → copy and check → commit → publish

Every arrow is a place where the process may be killed; `ops/resolve.py` decides at the next start each op that was
begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial

from thermocline.catalog import journal
from thermocline.core.axis import render_axis
from thermocline.core.names import TableName
from thermocline.core.observation import TableObservation
from thermocline.core.op import TIER
from thermocline.core.plan.tier import TierPlan
from thermocline.errors import ChecksumMismatch, PartitionGone, UnrepresentableValue
from thermocline.lake.commit.compare_and_swap import (
    KeyRange,
    LakeHead,
    OpStamp,
    append_range,
    apply_row_delta,
    load_table,
)
from thermocline.ops.resolve import adopt_head
from thermocline.ops.runner import WrittenOp, plan_table_op, run_op
from thermocline.ops.schema.follow_columns import check_followed
from thermocline.ops.tier.adopted_lake import RemovedRows, find_equal_partitions, is_adopting, write_removals
from thermocline.ops.tier.seam_literals import apply_seam_line
from thermocline.ops.tier.tier_run import TierRun
from thermocline.parquet.encode.lake_writer import WrittenFile
from thermocline.parquet.values.row_checksum import HASH_VERSION
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.progress import Meter
from thermocline.seam.heap.exported_snapshot import ExportedSnapshot, export_snapshot
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.lost_captures import why_spill_capture_lost
from thermocline.seam.heap.partitions import apply_rows, apply_seal, apply_state, note_moved_key, read_newest_key
from thermocline.seam.heap.unrepresentable_values import read_key_of_value
from thermocline.seam.spill import count_uncaptured
from thermocline.spark.jobs.copy import CopyResult, copy_partition, plan_block_ranges
from thermocline.spark.kernels.copy_partition import CopyTask


def why_not_move(work: TierRun, seen: TableObservation, plan: TierPlan) -> str | None:
    """Rows of the spill that were not captured are read from the heap as long as T lies below them, and from nowhere
    afterwards."""
    if why_spill_capture_lost(work.conn, work.table.registered.id) is None:
        return None
    if not (hidden := count_uncaptured(work.conn, work.table.seam, seen.cut.t, plan.new_t)):
        return None
    line = render_axis(seen.key_type, plan.new_t)
    lost = f"{hidden:,} rows of the spill below {line} were not captured and would be hidden"
    return f"nothing moves, for {lost}: run `thermocline verify --repair`"


def move_partitions(work: TierRun, seen: TableObservation, plan: TierPlan) -> None:
    conn, registered = work.conn, work.table.registered
    spark = work.spark()
    apply_seam_line(conn, work.table.seam, seen.cut, plan.new_t, work.settings)
    fault_point("line-raised")
    if registered.key_type.is_integer:
        newest = read_newest_key(conn, work.table.seam, seen.partitions, seen.ceiling)
        note_moved_key(conn, registered.id, [partition.oid for partition in plan.move], newest)
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
    adopting = is_adopting(registered, seen.cut.t)
    leaving = RemovedRows()
    try:
        equal = find_equal_partitions(head, work.dsn, registered, plan.move, snapshot) if adopting else {}
        copied = _copy(work, plan, head, stamp, snapshot, equal)
        if adopting:
            same = [partition for partition in plan.move if partition.oid in equal]
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
        commit=partial(_commit, files, leaving, None if adopting else taken)
        if files or not leaving.is_nothing
        else None,
        paths=[*(file.path for file in files), *(delete.path for delete in leaving.deletes)],
        counters=counters | {"sums": _sums(plan, copied)},
    )


def _commit(
    files: Sequence[WrittenFile], leaving: RemovedRows, taken: KeyRange | None, head: LakeHead, stamp: OpStamp
) -> int:
    """Append what was copied; a lake that is adopted loses in the same commit the rows that differ from the heap's."""
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
    equal: Mapping[int, CopyResult],
) -> list[CopyResult]:
    registered = work.table.registered
    results: list[CopyResult] = []
    sizes = snapshot.sizes
    meter = Meter(work.report_progress, f"copying {work.table.name}", sum(sizes[p.name] for p in plan.move), "bytes")
    for partition in plan.move:
        before, size = meter.done, sizes[partition.name]
        if (found := equal.get(partition.oid)) is not None:
            apply_rows(work.conn, registered.id, partition.oid, found.heap.rows)
            results.append(found)
            meter.note(before + size)
            continue
        ranges = plan_block_ranges(size, work.spark().sparkContext.defaultParallelism)
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
            partial(_note_tasks, meter, before, size, len(ranges)),
        )
        if not result.is_exact:
            raise ChecksumMismatch(
                f"Partition {partition.name}: the heap has {result.heap.rows:,} rows, the lake files "
                f"{result.lake.rows:,},"
                " and their checksums differ."
            )
        apply_rows(work.conn, registered.id, partition.oid, result.heap.rows)
        results.append(result)
        meter.note(before + size)
    return results


def _note_tasks(meter: Meter, before: int, size_bytes: int, tasks: int, completed: int) -> None:
    """The tasks of a partition read equal shares of it."""
    meter.note(before + size_bytes * completed // tasks)


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
