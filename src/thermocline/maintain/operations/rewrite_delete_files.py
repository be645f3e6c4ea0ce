"""Rewrite delete files: merge small position deletes, convert equality deletes to position deletes. No data file is
changed.

observe → plan → Spark tasks that read the deletes and, for equality, the key columns → one commit that swaps delete
files
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from thermocline.core.lake_file import LiveDataFile, LiveDeleteFile
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.delete_plans import (
    NO_EQUALITY_DELETES,
    NO_POSITION_DELETES,
    VECTORS_SINCE,
    DeleteBin,
    DeletesPlan,
    plan_conversions,
    plan_merges,
    still_applying,
)
from thermocline.core.maintenance.files import DeleteIndex, LakeSnapshot, is_same_entry, plain_path
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors import LostRace, ThermoclineError
from thermocline.errors.maintenance import FormatVersionUnsupported
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.commit.rewrite_files import NewDelete, Rewrite
from thermocline.lake.read.table_files import TableFiles
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.commits.maintenance_op import settle_lake_ops
from thermocline.maintain.context import PassContext
from thermocline.maintain.operations.compaction_tasks import (
    NO_SNAPSHOT,
    check_format,
    format_version,
    plan_delete_tasks,
    read_seen,
)
from thermocline.maintain.operations.late_vectors import new_vectors
from thermocline.maintain.operations.replace_files import STALE, USED_UP, staging_of
from thermocline.maintain.plans.planning import Observed, Planned, PlanRequest, idle_plan, refused_plan
from thermocline.maintain.plans.safety import read_bounds_of
from thermocline.parquet.deletes.rewrite_deletes import DeletesResult, rewrite_deletes
from thermocline.runtime.retries import back_off
from thermocline.spark.jobs.compact import BinFailed, run_bins


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A bin with the files that replace its deletes."""

    bin: DeleteBin
    result: DeletesResult


Choose = Callable[[LakeSnapshot, Sequence[_Written]], tuple[list[LiveDeleteFile], list[_Written]]]
"""On the head of the moment: the delete files that leave, and the bins whose files come."""


def plan_rewrite_position_delete_files(request: PlanRequest) -> Planned:
    """Plan to merge small position delete files, per partition."""
    return _plan(request, partial(plan_merges, policy=request.context.policy), NO_POSITION_DELETES)


def plan_convert_deletes(request: PlanRequest) -> Planned:
    """Plan to convert equality deletes to position deletes."""
    return _plan(request, plan_conversions, NO_EQUALITY_DELETES)


def _plan(request: PlanRequest, make_plan: Callable[[LakeSnapshot], DeletesPlan], nothing: str) -> Planned:
    operation, context = request.operation, request.context
    head = load_table(context.spark(), context.target.name)
    try:
        check_format(head)
    except ThermoclineError as refusal:
        return Planned(plan=refused_plan(operation, head, Bounds(), refusal))
    bounds = read_bounds_of(context, head)
    if context.target.lake_id is not None and not context.dry_run and settle_lake_ops(context):
        head = load_table(context.spark(), context.target.name)
    if head.snapshot_id is None:
        return Planned(plan=idle_plan(operation, head, bounds, NO_SNAPSHOT))
    files = TableFiles()
    try:
        if operation == "rewrite_position_delete_files":
            _check_has_position_files(head)
        plan = make_plan(read_seen(files, head))
    except ThermoclineError as refusal:
        return Planned(plan=refused_plan(operation, head, bounds, refusal))
    return Planned(
        plan=MaintenancePlan(
            operation=operation,
            metadata_location=head.metadata_location,
            snapshot=head.snapshot_id,
            bounds=bounds,
            change=plan if plan.bins else None,
            idle=None if plan.bins else nothing,
            notes=plan.details,
            idle_counters=_counters(plan, [], [], time.monotonic()),
        ),
        observed=Observed(head=head, files=files),
    )


def run_rewrite_position_delete_files(applier: Applier) -> Outcome:
    """Merge small files of position deletes."""
    return _run(applier, _choose_merged, NO_POSITION_DELETES)


def run_convert_deletes(applier: Applier) -> Outcome:
    """Convert equality deletes to position deletes."""
    return _run(applier, _choose_converted, NO_EQUALITY_DELETES)


def _run(applier: Applier, choose: Choose, nothing: str) -> Outcome:
    started, context, plan = time.monotonic(), applier.context, applier.plan.change
    operation, head, files = applier.plan.operation, applier.observed.head, applier.observed.files
    assert isinstance(plan, DeletesPlan)
    assert head is not None
    assert files is not None
    written, failures = _write(context, head, plan)
    dropped, kept, problem = _commit(applier, plan, files, written, choose)
    details = (*(str(failure) for failure in failures), *applier.plan.notes)
    counters = _counters(plan, dropped, kept, started)
    if problem is not None or not dropped:
        sentence = problem or (str(failures[0]) if failures else nothing)
        return Outcome(
            operation=operation,
            status="failed" if problem or failures else "skipped",
            sentence=sentence,
            details=details,
        )
    verb = "rewrote" if operation == "rewrite_position_delete_files" else "converted"
    kind = "position" if operation == "rewrite_position_delete_files" else "equality"
    count = sum(found.result.count for found in kept)
    into = f"{count} across {plan.groups} group(s)" if kind == "position" else f"{count} position delete files"
    gone = sum(1 for delete in dropped if delete.kind != "vector")
    sentence = f"{verb} {gone} {kind} delete files into {into}"
    return Outcome(operation=operation, status="done", sentence=sentence, counters=counters, details=details)


def _check_has_position_files(head: LakeHead) -> None:
    if (version := format_version(head)) >= VECTORS_SINCE:
        raise FormatVersionUnsupported(
            (
                f"{head.name} is an Iceberg table of format version {version}, whose position deletes are "
                "deletion vectors, one for each file."
            ),
            hint="There is nothing to merge in it; compaction applies its deletes of every kind.",
        )


def _write(context: PassContext, head: LakeHead, plan: DeletesPlan) -> tuple[list[_Written], list[ThermoclineError]]:
    bins = {made.number: made for made in plan.bins}
    written: list[_Written] = []
    failures: list[ThermoclineError] = []
    as_vectors = plan.seen.format_version >= VECTORS_SINCE
    kernel = partial(
        rewrite_deletes, files_at_most={made.number: made.files_at_most for made in plan.bins}, as_vectors=as_vectors
    )
    tasks = plan_delete_tasks(context, head, plan)
    parallel = context.policy.max_parallel_tasks
    for result in run_bins(context.spark(), staging_of(context), tasks, kernel, parallel=parallel, pace=context.pace):
        if isinstance(result, BinFailed):
            failures.append(result.reason)
        else:
            written.append(_Written(bin=bins[result.number], result=result))
    return written, failures


def _commit(
    applier: Applier,
    plan: DeletesPlan,
    files: TableFiles,
    written: Sequence[_Written],
    choose: Choose,
) -> tuple[list[LiveDeleteFile], list[_Written], str | None]:
    """Replace the delete files in one commit; on a lost race retry with the same files."""
    context = applier.context
    for attempt in range(max(context.policy.max_commit_retries, 1)):
        head = load_table(context.spark(), context.target.name)
        if head.snapshot_id != plan.seen.snapshot_id and not context.policy.rebase:
            return [], [], STALE
        seen = read_seen(files, head)
        dropped, kept = choose(seen, written)
        if not dropped:
            return [], [], None
        rewrite = Rewrite(dropped=dropped, new_deletes=[new for found in kept for new in _new_deletes(found, seen)])
        counters = {"delete_files_rewritten": len(dropped), "delete_files_written": len(rewrite.new_deletes)}
        message = f"replaced {len(dropped)} delete files by {len(rewrite.new_deletes)}"
        try:
            applier.commit_rewrite(head, rewrite, counters=counters, message=message)
            return dropped, kept, None
        except LostRace:
            time.sleep(back_off(attempt))
    return [], [], USED_UP


def _choose_merged(seen: LakeSnapshot, written: Sequence[_Written]) -> tuple[list[LiveDeleteFile], list[_Written]]:
    """Bins whose delete files are all still there."""
    live = {delete.key: delete for delete in seen.deletes}
    kept = [found for found in written if _is_all_there(found, seen)]
    return [live[delete.key] for found in kept for delete in found.bin.deletes], kept


def _choose_converted(seen: LakeSnapshot, written: Sequence[_Written]) -> tuple[list[LiveDeleteFile], list[_Written]]:
    """The equality deletes that no data file needs any more once the position deletes are there."""
    live = {delete.key: delete for delete in seen.deletes}
    index = DeleteIndex(seen)
    kept = [
        found
        for found in written
        if _is_all_there(found, seen) and (found.result.vectors is None or _is_as_it_was(found, seen, index))
    ]
    planned = {delete.key: live[delete.key] for found in kept for delete in found.bin.deletes if delete.key in live}
    looked = {file.path for found in kept for file in found.bin.data}
    stay = still_applying(seen, [delete for delete in planned.values() if delete.kind == "equality"], looked)
    named = {
        plain_path(vector.data_file)
        for found in kept
        if found.result.vectors is not None
        for vector in found.result.vectors.vectors
    }
    replaced = {delete.key for delete in planned.values() if plain_path(delete.referenced_file or "") in named}
    stay |= {delete.key for delete in planned.values() if delete.kind != "equality"} - replaced
    return [delete for key, delete in planned.items() if key not in stay], kept


def _is_all_there(found: _Written, seen: LakeSnapshot) -> bool:
    """Whether all deletes of a bin are still there, and no data file was removed and added again. Otherwise the written
    deletes would remove live rows."""
    deletes, data = {delete.key for delete in seen.deletes}, {file.path: file for file in seen.data}
    return all(delete.key in deletes for delete in found.bin.deletes) and all(
        is_same_entry(data[file.path], file) for file in found.bin.data if file.path in data
    )


def _is_as_it_was(found: _Written, seen: LakeSnapshot, index: DeleteIndex) -> bool:
    """Whether every data file of a bin is there and has the position deletes that its new vector was made from."""
    live = {file.path: file for file in seen.data}

    def by_position(deletes: Sequence[LiveDeleteFile]) -> set[tuple[str, int]]:
        return {delete.key for delete in deletes if delete.kind != "equality"}

    return all(
        file.path in live and by_position(index.of(live[file.path])) == by_position(found.bin.applies[file.path])
        for file in found.bin.data
    )


def _new_deletes(found: _Written, seen: LakeSnapshot) -> list[NewDelete]:
    """The bin's new files, each in the partition of a file that is in the table."""
    data = {file.path: file for file in seen.data}
    deletes = {delete.key: delete for delete in seen.deletes}
    likes: list[LiveDataFile | LiveDeleteFile] = [data[file.path] for file in found.bin.data if file.path in data]
    likes += [
        deletes[delete.key] for delete in found.bin.deletes if delete.key in deletes and delete.kind == "position"
    ]
    if not likes:
        return []
    if found.result.vectors is not None:
        return new_vectors(found.result.vectors, data)
    return [
        NewDelete(
            path=file.path,
            size_bytes=file.size_bytes,
            rows=file.rows,
            like=likes[0],
            referenced_file=file.data_files[0] if len(file.data_files) == 1 else None,
        )
        for file in found.result.files
    ]


def _counters(
    plan: DeletesPlan, dropped: Sequence[LiveDeleteFile], kept: Sequence[_Written], started: float
) -> dict[str, int]:
    return {
        "delete_files_rewritten": len(dropped),
        "delete_files_written": sum(found.result.count for found in kept),
        "delete_bytes_rewritten": sum(delete.size_bytes for delete in dropped),
        "delete_groups_planned": plan.groups,
        "delete_groups_skipped": plan.skipped,
        "duration_ms": int((time.monotonic() - started) * 1000),
    }
