"""Expiry: snapshots nobody needs leave the table, then their files leave the store.

    finish what a killed pass began → look and plan → note the files → commit on exactly that head → delete the files

Invariant: a file is deleted only when no snapshot of the committed version reaches it under any spelling, the journal
does not have it staged, and it lies in the table's own folders. The files are noted in Postgres before the commit, so a
kill in between leaves no waste: the next pass looks which of them are still reachable and deletes the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.manifest import ManifestFile

from thermocline.catalog import safety as journal
from thermocline.core.maintenance.bounds import Bounds
from thermocline.core.maintenance.expiry import ExpiryPlan, plan_expiry
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.core.maintenance.outcome import Outcome
from thermocline.errors import LostRace
from thermocline.lake.commit.remove_snapshots import remove_snapshots
from thermocline.lake.files.delete_files import delete_files, with_sizes
from thermocline.lake.files.deletion_check import Deletable, NeededFiles
from thermocline.lake.read.reachable import ManifestIndex, named_by_metadata
from thermocline.lake.read.reachable import live_files as read_live_files
from thermocline.lake.read.storage import LakeReader, absolute_path
from thermocline.maintain.context import PassContext
from thermocline.maintain.neighbour_tables import check_is_one_table
from thermocline.maintain.safety import (
    LakeVersion,
    check_may_delete,
    look,
    need_version,
    owner_of,
    read_bounds,
    roots_of,
)
from thermocline.maintain.writer_lock import writer_lock
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.file_io import flush_recent
from thermocline.runtime.retries import back_off

_NAMED = 20
CONFLICT = "metadata version conflict"


@dataclass(slots=True)
class _Manifests:
    """Manifests read so far: what the kept ones hold, as a set, and what the expiring ones hold, by name. Each is read
    once."""

    needed: NeededFiles
    index: ManifestIndex
    kept: set[str] = field(default_factory=set)
    files: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    version: LakeVersion
    bounds: Bounds
    plan: ExpiryPlan
    doomed: tuple[Deletable, ...]
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
    seen = _Manifests(
        needed=NeededFiles(str(context.target.name), roots_of(version)),
        index=ManifestIndex(LakeReader(version.metadata.location)),
    )
    work = _prepare(context, seen, version)
    for attempt in range(max(context.policy.max_commit_retries, 1)):
        if work.plan.is_empty or context.dry_run:
            return _told(context, work, started, waste, committed=False)
        try:
            work = _commit(context, seen)
        except LostRace:
            time.sleep(back_off(attempt))
            continue
        return _told(context, work, started, waste + _delete(context, work.doomed), committed=True)
    return Outcome(operation="expire_snapshots", status="failed", sentence=CONFLICT)


def _check(context: PassContext, version: LakeVersion) -> None:
    check_may_delete(context, version)
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
    seen.needed.need_paths(bounds.staged_files)
    seen.needed.need_paths(bounds.metadata_files)
    found = seen.needed.judge(_find_candidates(version, set(plan.snapshots), seen))
    return _Work(version=version, bounds=bounds, plan=plan, doomed=found.deletable, left=found.outside)


def _find_candidates(version: LakeVersion, expiring: set[int], seen: _Manifests) -> list[ListedFile]:
    """The files that expiring snapshots name, after what the others name was noted as needed."""
    snapshots, metadata = version.metadata.snapshots, version.metadata
    kept = seen.index.reach(snapshot for snapshot in snapshots if snapshot.snapshot_id not in expiring)
    gone = seen.index.reach(snapshot for snapshot in snapshots if snapshot.snapshot_id in expiring)
    statistics = (*metadata.statistics, *metadata.partition_statistics)
    theirs = {kind.statistics_path: kind.file_size_in_bytes for kind in statistics if kind.snapshot_id in expiring}
    theirs = {
        path: size
        for path, size in theirs.items()
        if path not in {k.statistics_path for k in statistics if k.snapshot_id not in expiring}
    }
    named = [path for path in named_by_metadata(metadata, version.head.metadata_location) if path not in theirs]
    base = metadata.location
    seen.needed.need_paths((*named, *(absolute_path(path, base) for path in (*kept.lists, *kept.manifests))))
    for path in kept.manifests.keys() - seen.kept:
        seen.needed.need(lambda manifest=kept.manifests[path]: _read_and_flush(manifest, base))  # type: ignore[misc]
        seen.kept.add(path)
    only_gone = [manifest for path, manifest in gone.manifests.items() if path not in kept.manifests]
    for manifest in only_gone:
        if manifest.manifest_path not in seen.files:
            seen.files[manifest.manifest_path] = [
                file for files in read_live_files([manifest], LakeReader(base)) for file in files
            ]
    candidates = dict.fromkeys(gone.lists - kept.lists, 0)
    candidates |= {manifest.manifest_path: manifest.manifest_length for manifest in only_gone}
    candidates |= {path: size for manifest in only_gone for path, size in seen.files[manifest.manifest_path]} | theirs
    return [
        ListedFile(path=absolute_path(path, base), size_bytes=size, modified=None) for path, size in candidates.items()
    ]


def _read_and_flush(manifest: ManifestFile, base: str) -> Iterator[str]:
    """The files of a manifest that stays. What replaced the files that go must be on disk before they do."""
    for files in read_live_files([manifest], LakeReader(base)):
        paths = [absolute_path(path, base) for path, _ in files]
        flush_recent(paths, time.time())
        yield from paths


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
        journal.doom(context.conn, owner, [(file.path, file.size_bytes) for file in work.doomed])
        fault_point("expire-noted")
        remove_snapshots(work.version.head, work.plan.snapshots, work.plan.refs)
        fault_point("expire-committed")
        if owner.table_id is not None:
            journal.forget_published(context.conn, owner.table_id, work.plan.snapshots)
    return work


def _finish_deletes(context: PassContext, version: LakeVersion) -> _Deleted:
    """Files that a killed pass noted: those that the table still reaches are let be, the others go."""
    doomed = [
        ListedFile(path=path, size_bytes=size, modified=None)
        for path, size in journal.read_doomed(context.conn, owner_of(context))
    ]
    if not doomed:
        return _Deleted()
    needed = NeededFiles(str(context.target.name), roots_of(version))
    need_version(needed, version)
    needed.need_paths(journal.read_staged(context.conn))
    found = needed.judge(doomed)
    free = {file.path for file in found.deletable}
    journal.spare(context.conn, [file.path for file in doomed if file.path not in free])
    return _delete(context, found.deletable)


def _delete(context: PassContext, doomed: Sequence[Deletable]) -> _Deleted:
    """A file that would not go stays noted and is tried by the next pass."""
    gone, freed, failed = 0, 0, []
    for part in delete_files(doomed):
        journal.spare(context.conn, [file.path for file in part.files])
        gone += len(part.files)
        freed += sum(file.size_bytes for file in part.files)
        failed += [
            f"{file.path} could not be deleted and is tried again by the next pass: {problem}"
            for file, problem in part.failed
        ]
    return _Deleted(gone=gone, freed_bytes=freed, failed=tuple(failed))


def _told(context: PassContext, work: _Work, started: float, deleted: _Deleted, *, committed: bool) -> Outcome:
    plan = work.plan
    details = [f"snapshot {snapshot} stays: {holder}" for snapshot, holder in list(plan.held.items())[:_NAMED]]
    if work.left:
        details.append(f"{work.left} file(s) outside the table's folders stay")
    gone, freed, failed = deleted.gone, deleted.freed_bytes, deleted.failed
    if committed and not plan.is_empty:
        details += [f"ref {ref} was past its age" for ref in plan.refs]
    elif plan.is_empty:
        details += [f"deleted {gone} file(s) that a killed pass had left"] if gone else []
    else:
        details += [f"snapshot {snapshot} would expire" for snapshot in plan.snapshots[:_NAMED]]
        details += [f"{file.path} would be deleted ({file.size_bytes} bytes)" for file in work.doomed[:_NAMED]]
    expired = len(plan.snapshots) if committed else 0
    verb, count = ("expired", gone) if committed else ("would expire", len(work.doomed))
    sentence = (
        "no snapshots expired"
        if plan.is_empty
        else (
            f"{verb} {len(plan.snapshots)} snapshot(s), {'deleted' if committed else 'deleting'} {count} "
            "unreferenced file(s)"
        )
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
