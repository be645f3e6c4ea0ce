"""Expiry: snapshots nobody needs leave the table, then their files leave the store.

    finish what a killed pass began → look and plan → note the files → commit on exactly that head → delete the files

Invariant: a file is deleted only when no snapshot of the committed version reaches it, the journal does not have it staged, and it lies in
the table's own folders. The files are noted in Postgres before the commit, so a kill in between leaves no waste: the next pass looks
which of them are still reachable and deletes the others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from thermocline.catalog import safety as journal
from thermocline.cold.reachable import ManifestIndex, PathSet, every_path, named_by_metadata
from thermocline.cold.reachable import live_files as read_live_files
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.expiry import ExpiryPlan, plan_expiry
from thermocline.core.maintenance.orphans import loose_spelling
from thermocline.core.maintenance.outcome import Outcome
from thermocline.errors import LostRace
from thermocline.faults import fault_point
from thermocline.lake_files import flush_young
from thermocline.ops.maintain.context import PassContext
from thermocline.ops.maintain.deletion import delete_files, is_within, with_sizes
from thermocline.ops.maintain.neighbours import check_is_one_table
from thermocline.ops.maintain.safety import LakeVersion, check_may_delete, look, owner_of, read_bounds, roots_of
from thermocline.ops.maintain.writer import back_off, writer_lock
from thermocline.spark.expiry import remove_snapshots

_NAMED = 20
CONFLICT = "metadata version conflict"


@dataclass(slots=True)
class _Manifests:
    """Manifests read so far: what the kept ones hold, as a set, and what the expiring ones hold, by name. Each is read once."""

    index: ManifestIndex = field(default_factory=ManifestIndex)
    needed: PathSet = field(default_factory=PathSet)
    """By the spelling that all spellings of one file have in common."""
    kept: set[str] = field(default_factory=set)
    files: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    version: LakeVersion
    bounds: Bounds
    plan: ExpiryPlan
    doomed: tuple[tuple[str, int], ...]
    left: int
    """Files that only expiring snapshots reach and that are not ours to delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deleted:
    """Files gone, bytes freed, and what failed."""

    gone: int = 0
    freed_bytes: int = 0
    failed: tuple[str, ...] = ()

    def __add__(self, other: _Deleted) -> _Deleted:
        failed = (*self.failed, *other.failed)
        return _Deleted(gone=self.gone + other.gone, freed_bytes=self.freed_bytes + other.freed_bytes, failed=failed)


def run_expire_snapshots(context: PassContext) -> Outcome:
    """Expire what the policy lets go, within the bounds."""
    started = time.monotonic()
    version = look(context)
    _check(context, version)
    if not version.snapshots:
        return Outcome(operation="expire_snapshots", status="skipped", sentence="no snapshots")
    waste = _Deleted() if context.dry_run else _finish_deletes(context, version)
    seen = _Manifests()
    work = _prepare(context, seen, version)
    for attempt in range(max(context.policy.max_commit_retries, 1)):
        if work.plan.is_empty or context.dry_run:
            return _told(context, work, started, waste, committed=False)
        try:
            work = _commit(context, seen)
        except LostRace:
            time.sleep(back_off(attempt))
            continue
        return _told(context, work, started, waste + _delete(context, dict(work.doomed)), committed=True)
    return Outcome(operation="expire_snapshots", status="failed", sentence=CONFLICT)


def _check(context: PassContext, version: LakeVersion) -> None:
    check_may_delete(version)
    check_is_one_table(context, version)


def _prepare(context: PassContext, seen: _Manifests, version: LakeVersion) -> _Work:
    """Plan, and find the files that only expiring snapshots reach."""
    bounds = read_bounds(context, version)
    context.note_bounds(bounds)
    plan = plan_expiry(
        version.snapshots,
        version.refs,
        version.head.snapshot_id,
        bounds,
        retention_ms=context.policy.snapshot_retention_ms,
        min_retained=context.policy.snapshot_min_retained,
        now_ms=int(context.now.timestamp() * 1000),
    )
    if plan.is_empty:
        return _Work(version=version, bounds=bounds, plan=plan, doomed=(), left=0)
    candidates = _unreachable(version, set(plan.snapshots), seen)
    roots = roots_of(version)
    doomed = {path: size for path, size in candidates if path not in bounds.staged_files and is_within(path, roots)}
    return _Work(version=version, bounds=bounds, plan=plan, doomed=tuple(doomed.items()), left=len(dict(candidates)) - len(doomed))


def _unreachable(version: LakeVersion, expiring: set[int], seen: _Manifests) -> list[tuple[str, int]]:
    snapshots = version.metadata.snapshots
    kept = seen.index.reach(snapshot for snapshot in snapshots if snapshot.snapshot_id not in expiring)
    gone = seen.index.reach(snapshot for snapshot in snapshots if snapshot.snapshot_id in expiring)
    for path in kept.manifests.keys() - seen.kept:
        for files in read_live_files([kept.manifests[path]]):
            seen.needed.add(loose_spelling(file) for file, _ in files)
            flush_young((file for file, _ in files), time.time())
        seen.kept.add(path)
    only_gone = [manifest for path, manifest in gone.manifests.items() if path not in kept.manifests]
    for manifest in only_gone:
        if manifest.manifest_path not in seen.files:
            seen.files[manifest.manifest_path] = [file for files in read_live_files([manifest]) for file in files]
    candidates = [(path, 0) for path in gone.lists - kept.lists]
    candidates += [(manifest.manifest_path, manifest.manifest_length) for manifest in only_gone]
    candidates += [file for manifest in only_gone for file in seen.files[manifest.manifest_path]]
    statistics = (*version.metadata.statistics, *version.metadata.partition_statistics)
    candidates += [(kind.statistics_path, kind.file_size_in_bytes) for kind in statistics if kind.snapshot_id in expiring]
    still = {kind.statistics_path for kind in statistics if kind.snapshot_id not in expiring}
    named = set(named_by_metadata(version.metadata, version.head.metadata_location)) - {kind.statistics_path for kind in statistics}
    return [
        (path, size) for path, size in candidates if loose_spelling(path) not in seen.needed and path not in still and path not in named
    ]


def _commit(context: PassContext, seen: _Manifests) -> _Work:
    """Plan again under the writer's lock, when nearly every manifest was read before, and let go of the snapshots."""
    owner = owner_of(context)
    with writer_lock(context):
        version = look(context)
        _check(context, version)
        work = _prepare(context, seen, version)
        if work.plan.is_empty:
            return work
        work = replace(work, doomed=with_sizes(work.doomed))
        journal.doom(context.conn, owner, work.doomed)
        fault_point("expire-noted")
        remove_snapshots(work.version.head, work.plan.snapshots, work.plan.refs)
        fault_point("expire-committed")
        if owner.table_id is not None:
            journal.forget_published(context.conn, owner.table_id, work.plan.snapshots)
    return work


def _finish_deletes(context: PassContext, version: LakeVersion) -> _Deleted:
    """Files that a killed pass noted: those that the table still reaches are let be, the others go."""
    doomed = dict(journal.read_doomed(context.conn, owner_of(context)))
    if not doomed:
        return _Deleted()
    needed = PathSet()
    needed.add(every_path(version.metadata, version.head.metadata_location))
    staged = journal.read_staged(context.conn)
    spared = [path for path in doomed if path in needed or path in staged]
    journal.spare(context.conn, spared)
    return _delete(context, {path: size for path, size in doomed.items() if path not in set(spared)})


def _delete(context: PassContext, sizes: dict[str, int]) -> _Deleted:
    """A file that would not go stays noted and is tried by the next pass."""
    gone, freed, failed = 0, 0, []
    for part in delete_files(sizes):
        journal.spare(context.conn, part.paths)
        gone += len(part.paths)
        freed += sum(sizes[path] for path in part.paths)
        failed += [f"{path} could not be deleted and is tried again by the next pass: {problem}" for path, problem in part.failed]
    return _Deleted(gone=gone, freed_bytes=freed, failed=tuple(failed))


def _told(context: PassContext, work: _Work, started: float, deleted: _Deleted, *, committed: bool) -> Outcome:
    plan = work.plan
    details = [f"snapshot {snapshot} stays: {holder}" for snapshot, holder in list(plan.held.items())[:_NAMED]]
    if work.left:
        details.append(f"{work.left} file(s) outside the table's folders or staged stay")
    gone, freed, failed = deleted.gone, deleted.freed_bytes, deleted.failed
    if committed and not plan.is_empty:
        details += [f"ref {ref} was past its age" for ref in plan.refs]
    elif plan.is_empty:
        details += [f"deleted {gone} file(s) that a killed pass had left"] if gone else []
    else:
        details += [f"snapshot {snapshot} would expire" for snapshot in plan.snapshots[:_NAMED]]
        details += [f"{path} would be deleted ({size} bytes)" for path, size in work.doomed[:_NAMED]]
    expired = len(plan.snapshots) if committed else 0
    verb, count = ("expired", gone) if committed else ("would expire", len(work.doomed))
    sentence = (
        "no snapshots expired"
        if plan.is_empty
        else f"{verb} {len(plan.snapshots)} snapshot(s), {'deleted' if committed else 'deleting'} {count} unreferenced file(s)"
    )
    return Outcome(
        operation="expire_snapshots",
        status="skipped" if plan.is_empty or context.dry_run else "done",
        sentence=sentence,
        counters={
            "snapshots_expired": expired,
            "files_deleted": gone,
            "deletes_failed": len(failed),
            "bytes_freed": freed,
            "duration_ms": int((time.monotonic() - started) * 1000),
        },
        details=(*details, *failed[:_NAMED]),
    )
