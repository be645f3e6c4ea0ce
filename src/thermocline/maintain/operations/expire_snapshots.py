"""Expiry: remove snapshots that are no longer needed from the table, then delete their files.

    observe and plan → note the files → commit on exactly that head → delete the files

Invariant: a file is deleted only when no snapshot of the committed version reaches it under any spelling, the journal
does not have it staged, and it lies in the table's own folders. The files are recorded in Postgres before the commit,
so a crash in between leaks nothing: the next pass deletes those of them that are no longer reachable.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyiceberg.manifest import ManifestFile

from thermocline.catalog import safety as journal
from thermocline.core.maintenance.expiry import ExpiryChange, plan_expiry
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.errors import LostRace
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.files.delete_files import with_sizes
from thermocline.lake.files.deletion_check import Deletable, NeededFiles
from thermocline.lake.read.reachable import ManifestIndex, named_by_metadata
from thermocline.lake.read.reachable import live_files as read_live_files
from thermocline.lake.read.storage import LakeReader, absolute_path
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.commits.writer_lock import writer_lock
from thermocline.maintain.context import PassContext
from thermocline.maintain.plans.neighbour_tables import check_is_one_table
from thermocline.maintain.plans.planning import ExpiryReads, Observed, Planned, PlanRequest, idle_plan
from thermocline.maintain.plans.safety import (
    LakeVersion,
    check_may_delete,
    need_version,
    owner_of,
    read_bounds,
    read_bounds_of,
    read_version,
    roots_of,
)
from thermocline.runtime.file_io import flush_recent
from thermocline.runtime.retries import back_off

_NAMED = 20
CONFLICT = "metadata version conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deleted:
    """Files deleted, bytes freed, and failures."""

    gone: int = 0
    freed_bytes: int = 0
    failed: tuple[str, ...] = ()

    def __add__(self, other: _Deleted) -> _Deleted:
        failed = (*self.failed, *other.failed)
        return _Deleted(gone=self.gone + other.gone, freed_bytes=self.freed_bytes + other.freed_bytes, failed=failed)


def plan_expire_snapshots(request: PlanRequest) -> Planned:
    """The snapshots that the policy expires, within the bounds, and the files that only they reach."""
    operation, context, reads = request.operation, request.context, request.before.expiry
    version = read_version(context)
    check_may_delete(context, version)
    check_is_one_table(context, version)
    bounds = read_bounds(context, version)
    if not version.snapshots:
        return Planned(plan=idle_plan(operation, version.head, bounds, "no snapshots"))
    if reads is None:
        reads = ExpiryReads(
            needed=NeededFiles(str(context.target.name), roots_of(version)),
            index=ManifestIndex(LakeReader(version.metadata.location)),
        )
    expiry = plan_expiry(
        version.snapshots,
        version.refs,
        version.head.snapshot_id,
        bounds,
        retention_ms=context.policy.snapshot_retention_ms,
        min_retained=context.policy.snapshot_min_retained,
        now_ms=int(context.now.timestamp() * 1000),
    )
    change = ExpiryChange(plan=expiry, leftover=_find_leftover(context, version))
    if not expiry.is_empty:
        reads.needed.need_paths(bounds.staged_files)
        reads.needed.need_paths(bounds.metadata_files)
        candidates = _find_candidates(version, set(expiry.snapshots), reads)
        found = reads.needed.judge(candidates)
        free = {file.path for file in found.deletable}
        files = tuple(file for file in candidates if file.path in free)
        change = replace(change, files=files, files_outside=found.outside)
    notes = [f"snapshot {snapshot} stays: {holder}" for snapshot, holder in list(expiry.held.items())[:_NAMED]]
    if change.files_outside:
        notes.append(f"{change.files_outside} file(s) outside the table's folders stay")
    is_idle = expiry.is_empty and not change.leftover
    return Planned(
        plan=MaintenancePlan(
            operation=operation,
            metadata_location=version.head.metadata_location,
            snapshot=version.head.snapshot_id,
            bounds=bounds,
            change=None if is_idle else change,
            idle="no snapshots expired" if is_idle else None,
            notes=tuple(notes),
            idle_counters=_counters(0, _Deleted()),
        ),
        observed=Observed(head=version.head, expiry=reads),
    )


def _find_leftover(context: PassContext, version: LakeVersion) -> tuple[ListedFile, ...]:
    """Files that a killed pass noted for deletion and that the table does not reach."""
    doomed = [
        ListedFile(path=path, size_bytes=size, modified=None)
        for path, size in journal.read_doomed(context.conn, owner_of(context))
    ]
    if not doomed:
        return ()
    free = {file.path for file in _judge_doomed(context, version, doomed)}
    if not context.dry_run:
        journal.spare(context.conn, [file.path for file in doomed if file.path not in free])
    return tuple(file for file in doomed if file.path in free)


def _judge_doomed(context: PassContext, version: LakeVersion, doomed: Sequence[ListedFile]) -> tuple[Deletable, ...]:
    needed = NeededFiles(str(context.target.name), roots_of(version))
    need_version(needed, version)
    needed.need_paths(journal.read_staged(context.conn))
    return needed.judge(doomed).deletable


def run_expire_snapshots(applier: Applier) -> Outcome:
    """Remove the snapshots of the plan, then delete the files that nothing reaches any more."""
    started, context = time.monotonic(), applier.context
    deleted = _delete_leftover(applier)
    for attempt in range(max(context.policy.max_commit_retries, 1)):
        change = applier.plan.change
        if not isinstance(change, ExpiryChange) or change.plan.is_empty:
            return _render_outcome(applier, started, deleted, expired=0)
        try:
            applier, doomed = _commit(applier)
        except LostRace:
            time.sleep(back_off(attempt))
            continue
        change = applier.plan.change
        expired = len(change.plan.snapshots) if isinstance(change, ExpiryChange) else 0
        return _render_outcome(applier, started, deleted + _delete(applier, doomed), expired=expired)
    return Outcome(operation="expire_snapshots", status="failed", sentence=CONFLICT)


def _commit(applier: Applier) -> tuple[Applier, tuple[Deletable, ...]]:
    """Expire the planned snapshots under the writer lock. When the table or the bounds changed since, plan again first;
    nearly every manifest is cached by then."""
    context = applier.context
    with writer_lock(context):
        head = load_table(context.spark(), context.target.name)
        if _is_outdated(applier, head):
            applier = applier.plan_again()
            assert applier.observed.head is not None
            head = applier.observed.head
        change, reads = applier.plan.change, applier.observed.expiry
        if not isinstance(change, ExpiryChange) or change.plan.is_empty or reads is None:
            return applier, ()
        doomed = with_sizes(reads.needed.judge(change.files).deletable)
        applier.expire_snapshots(head, change.plan.snapshots, change.plan.refs, doomed)
    return applier, doomed


def _is_outdated(applier: Applier, head: LakeHead) -> bool:
    """Whether the table changed since the plan, or a planned snapshot is needed by now."""
    if head.metadata_location != applier.plan.metadata_location:
        return True
    bounds, before = read_bounds_of(applier.context, head), applier.plan.bounds
    return (
        bounds.protected != before.protected
        or bounds.metadata_files != before.metadata_files
        or not bounds.staged_files <= before.staged_files
    )


def _find_candidates(version: LakeVersion, expiring: set[int], reads: ExpiryReads) -> list[ListedFile]:
    """The files that expiring snapshots name, after those of the remaining snapshots were recorded as needed."""
    snapshots, metadata = version.metadata.snapshots, version.metadata
    kept = reads.index.reach(snapshot for snapshot in snapshots if snapshot.snapshot_id not in expiring)
    gone = reads.index.reach(snapshot for snapshot in snapshots if snapshot.snapshot_id in expiring)
    statistics = (*metadata.statistics, *metadata.partition_statistics)
    theirs = {kind.statistics_path: kind.file_size_in_bytes for kind in statistics if kind.snapshot_id in expiring}
    theirs = {
        path: size
        for path, size in theirs.items()
        if path not in {k.statistics_path for k in statistics if k.snapshot_id not in expiring}
    }
    named = [path for path in named_by_metadata(metadata, version.head.metadata_location) if path not in theirs]
    base = metadata.location
    reads.needed.need_paths((*named, *(absolute_path(path, base) for path in (*kept.lists, *kept.manifests))))
    for path in kept.manifests.keys() - reads.kept:
        reads.needed.need(lambda manifest=kept.manifests[path]: _read_and_flush(manifest, base))  # type: ignore[misc]
        reads.kept.add(path)
    only_gone = [manifest for path, manifest in gone.manifests.items() if path not in kept.manifests]
    for manifest in only_gone:
        if manifest.manifest_path not in reads.files:
            reads.files[manifest.manifest_path] = [
                file for files in read_live_files([manifest], LakeReader(base)) for file in files
            ]
    candidates = dict.fromkeys(gone.lists - kept.lists, 0)
    candidates |= {manifest.manifest_path: manifest.manifest_length for manifest in only_gone}
    candidates |= {path: size for manifest in only_gone for path, size in reads.files[manifest.manifest_path]} | theirs
    return [
        ListedFile(path=absolute_path(path, base), size_bytes=size, modified=None) for path, size in candidates.items()
    ]


def _read_and_flush(manifest: ManifestFile, base: str) -> Iterator[str]:
    """The files of a manifest that stays. They are flushed, because they may replace files that are deleted."""
    for files in read_live_files([manifest], LakeReader(base)):
        paths = [absolute_path(path, base) for path, _ in files]
        flush_recent(paths, time.time())
        yield from paths


def _delete_leftover(applier: Applier) -> _Deleted:
    change = applier.plan.change
    if not isinstance(change, ExpiryChange) or not change.leftover:
        return _Deleted()
    context, version = applier.context, read_version(applier.context)
    check_may_delete(context, version)
    check_is_one_table(context, version)
    return _delete(applier, _judge_doomed(context, version, change.leftover))


def _delete(applier: Applier, doomed: Sequence[Deletable]) -> _Deleted:
    """Delete the files. One that could not be deleted stays recorded, and the next pass tries again."""
    gone, freed, failed = 0, 0, []
    for part in applier.delete_files(doomed):
        journal.spare(applier.context.conn, [file.path for file in part.files])
        gone += len(part.files)
        freed += sum(file.size_bytes for file in part.files)
        failed += [
            f"{file.path} could not be deleted and is tried again by the next pass: {problem}"
            for file, problem in part.failed
        ]
    return _Deleted(gone=gone, freed_bytes=freed, failed=tuple(failed))


def _render_outcome(applier: Applier, started: float, deleted: _Deleted, *, expired: int) -> Outcome:
    change, details = applier.plan.change, list(applier.plan.notes)
    refs = change.plan.refs if isinstance(change, ExpiryChange) else ()
    is_done = expired > 0 or bool(refs)
    if is_done:
        details += [f"ref {ref} was past its age" for ref in refs]
        sentence = f"expired {expired} snapshot(s), deleted {deleted.gone} unreferenced file(s)"
    else:
        details += [f"deleted {deleted.gone} file(s) that a killed pass had left"] if deleted.gone else []
        sentence = "no snapshots expired"
    return Outcome(
        operation="expire_snapshots",
        status="done" if is_done else "skipped",
        sentence=sentence,
        counters={**_counters(expired, deleted), "duration_ms": int((time.monotonic() - started) * 1000)},
        details=(*details, *deleted.failed[:_NAMED]),
    )


def _counters(expired: int, deleted: _Deleted) -> dict[str, int]:
    return {
        "snapshots_expired": expired,
        "files_deleted": deleted.gone,
        "deletes_failed": len(deleted.failed),
        "bytes_freed": deleted.freed_bytes,
    }
