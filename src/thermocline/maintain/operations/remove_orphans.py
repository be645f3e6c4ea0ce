"""The orphan sweep: files in the table's folders that nothing names.

    list → keep what is named, staged or young → read the table again → delete, or move to quarantine

The listing streams, and an interrupted one is continued. What is needed is held as hashes, and orphans are spooled to
disk, because nothing is deleted before the whole listing was compared: one file named under another spelling stops the
sweep. What was committed meanwhile is read before the first delete. Ages are judged by the store's clock.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import IO

from thermocline.catalog.maintenance import sweeps
from thermocline.catalog.safety import read_staged
from thermocline.core.maintenance.orphans import ListedFile, SweepPlan, judge_age
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.maintenance.plan import MaintenancePlan
from thermocline.lake.files.deletion_check import Deletable, NeededFiles
from thermocline.lake.files.listing import list_parts
from thermocline.maintain.commits.applier import Applier
from thermocline.maintain.context import PassContext
from thermocline.maintain.operations.quarantine import empty_quarantine, quarantine_files, read_overdue, settle_moves
from thermocline.maintain.plans.neighbour_tables import SweptFolders, plan_folders
from thermocline.maintain.plans.planning import Observed, Planned, PlanRequest
from thermocline.maintain.plans.safety import (
    LakeVersion,
    check_may_delete,
    need_version,
    owner_of,
    read_bounds,
    read_clock,
    read_version,
    roots_of,
)
from thermocline.runtime.fault_points import fault_point

_MAX_DETAILS = 1000
_FILES_AT_ONCE = 1000
_SAVE_EVERY_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class _Listing:
    """A listing in progress: the needed files, the files compared with them, and the orphans found so far.

    Orphans are spooled to disk: there may be millions.
    """

    now: datetime
    grace: timedelta
    needed: NeededFiles
    spool: IO[str]
    listed: int = 0
    young: int = 0
    unknown_age: int = 0
    outside: int = 0
    """Files that nothing names, in folders that only a link leads to or under names that are not safe to delete."""
    orphans: int = 0
    size_bytes: int = 0
    steps: list[str] = field(default_factory=list)

    def compare(self, files: Sequence[ListedFile]) -> None:
        """Spool the old files that nothing names; refuse when one of them may be named under another spelling."""
        self.listed += len(files)
        old: dict[str, tuple[ListedFile, str]] = {}
        for file, is_named in zip(files, self.needed.names([file.path for file in files]), strict=True):
            judged = judge_age(file, self.now, self.grace)
            if not is_named and judged.is_orphan:
                old[file.path] = file, judged.reason
            elif not is_named:
                self.young += 1
                self.unknown_age += file.modified is None
        found = self.needed.judge([file for file, _ in old.values()])
        self.outside += found.outside
        for deletable in found.deletable:
            file, reason = old[deletable.path]
            self.spool.write(_to_line(file))
            self.orphans += 1
            self.size_bytes += file.size_bytes
            if len(self.steps) < _MAX_DETAILS:
                self.steps.append(f"{file.path} ({file.size_bytes} bytes): {reason}")

    def notes(self) -> Iterator[str]:
        if self.unknown_age:
            yield f"{self.unknown_age} file(s) of unknown age stay"
        if self.outside:
            yield f"{self.outside} file(s) stay whose names or folders other programs read otherwise"
        if self.young:
            yield f"{self.young} file(s) that nothing names are not past the grace period"


@dataclass(frozen=True, slots=True)
class _Spooled:
    """Files of a spool, read from its beginning each time."""

    spool: IO[str]

    def __iter__(self) -> Iterator[ListedFile]:
        self.spool.seek(0)
        return map(_from_line, self.spool)


def plan_remove_orphans(request: PlanRequest) -> Planned:
    """The files of the table's folders that nothing names, past the grace period."""
    context = request.context
    version = read_version(context)
    check_may_delete(context, version)
    if not context.dry_run:
        settle_moves(context)
    spool = request.held.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))  # noqa: SIM115
    folders = plan_folders(context, version)
    bounds = read_bounds(context, version)
    listing = _Listing(
        now=read_clock(version),
        grace=timedelta(milliseconds=context.policy.orphan_grace_ms),
        needed=NeededFiles(str(context.target.name), roots_of(version), refuses_other_spellings=True),
        spool=spool,
    )
    need_version(listing.needed, version)
    listing.needed.need_paths((*bounds.metadata_files, *bounds.staged_files))
    _list(context, folders, listing)
    fault_point("orphans-listed")
    overdue = read_overdue(context)
    change = SweepPlan(
        files=_Spooled(spool),
        count=listing.orphans,
        size_bytes=listing.size_bytes,
        steps=tuple(listing.steps),
        overdue=overdue,
    )
    is_idle = not listing.orphans and not overdue
    if is_idle and not context.dry_run:
        sweeps.forget_sweep(context.conn, owner_of(context))
    return Planned(
        plan=MaintenancePlan(
            operation=request.operation,
            metadata_location=version.head.metadata_location,
            snapshot=version.head.snapshot_id,
            bounds=bounds,
            change=None if is_idle else change,
            idle=_idle(listing.listed) if is_idle else None,
            notes=(*folders.reasons, *listing.notes()),
            idle_counters={"orphans_removed": 0, "files_listed": listing.listed, "bytes_freed": 0},
        ),
        observed=Observed(head=version.head, needed=listing.needed),
    )


def _idle(listed: int) -> str:
    return f"no orphan files among {listed} listed"


def _list(context: PassContext, folders: SweptFolders, listing: _Listing) -> None:
    """Compare the listing with the needed files. An interrupted listing continues at the folder it had reached; the
    orphans it had found are compared again."""
    roots = folders.roots
    place = None if context.dry_run else sweeps.read_sweep(context.conn, owner_of(context))
    if place is not None and place.root in roots:
        roots = roots[roots.index(place.root) :]
        found = sweeps.read_candidates(context.conn, owner_of(context))
        while some := list(islice(found, _FILES_AT_ONCE)):
            listing.compare(some)
        listing.listed = place.listed
    elif not context.dry_run:
        place = None
        sweeps.forget_sweep(context.conn, owner_of(context))
    saved, saved_at = listing.spool.tell(), time.monotonic()
    for root in roots:
        for part in list_parts(
            root, folders.left_out, place.after if place is not None and root == place.root else None
        ):
            listing.compare(part.files)
            if part.finished is not None and not context.dry_run and time.monotonic() - saved_at >= _SAVE_EVERY_SECONDS:
                position = sweeps.SweepPosition(root=root, after=part.finished, listed=listing.listed)
                _save(context, position, listing.spool, saved)
                saved, saved_at = listing.spool.tell(), time.monotonic()


def _save(context: PassContext, position: sweeps.SweepPosition, spool: IO[str], saved: int) -> None:
    """Save the position of the listing, with the orphans spooled since it was last saved."""
    spool.seek(saved)
    sweeps.save_sweep(context.conn, owner_of(context), position, map(_from_line, spool))
    spool.seek(0, os.SEEK_END)
    fault_point("orphans-saved")
    context.report_progress(f"remove_orphans: {position.listed} files listed")


def _to_line(file: ListedFile) -> str:
    return json.dumps([file.path, file.size_bytes, file.modified.isoformat() if file.modified else None]) + "\n"


def _from_line(line: str) -> ListedFile:
    path, size, modified = json.loads(line)
    return ListedFile(path=path, size_bytes=size, modified=datetime.fromisoformat(modified) if modified else None)


@dataclass(slots=True, kw_only=True)
class _Removed:
    """Files that were deleted or moved to quarantine."""

    count: int = 0
    size_bytes: int = 0
    details: list[str] = field(default_factory=list)

    def add_detail(self, sentence: str) -> None:
        if len(self.details) < _MAX_DETAILS:
            self.details.append(sentence)


def run_remove_orphans(applier: Applier) -> Outcome:
    """Delete the planned orphans that are still orphans, or move them to quarantine."""
    started, context, plan = time.monotonic(), applier.context, applier.plan.change
    needed = applier.observed.needed
    assert isinstance(plan, SweepPlan)
    assert needed is not None
    version = read_version(context)
    done = _Removed()
    orphans = _still_orphans(applier, version, plan, needed)
    if context.policy.orphan_quarantine_ms:
        location = version.metadata.location
        done.count, done.size_bytes = quarantine_files(
            context, location, applier.check_deletions(orphans), done.add_detail
        )
    else:
        for part in applier.delete_files(orphans):
            done.count += len(part.files)
            done.size_bytes += sum(file.size_bytes for file in part.files)
            for file, problem in part.failed:
                done.add_detail(f"{file.path} could not be deleted: {problem}")
    sweeps.forget_sweep(context.conn, owner_of(context))
    done.size_bytes += empty_quarantine(context, plan.overdue, needed, applier.make_deletion_check(), done.add_detail)
    verb = "quarantined" if context.policy.orphan_quarantine_ms else "removed"
    listed = applier.plan.idle_counters["files_listed"]
    return Outcome(
        operation="remove_orphans",
        status="done" if done.count else "skipped",
        sentence=f"{verb} {done.count} orphan file(s)" if done.count else _idle(listed),
        counters={
            "orphans_removed": done.count,
            "files_listed": listed,
            "bytes_freed": done.size_bytes,
            "duration_ms": int((time.monotonic() - started) * 1000),
        },
        details=(*done.details, *applier.plan.notes),
    )


def _still_orphans(applier: Applier, version: LakeVersion, plan: SweepPlan, needed: NeededFiles) -> Iterator[Deletable]:
    """The planned files that are still orphans. All of them are compared before the first is returned."""
    context = applier.context
    check_may_delete(context, version)
    if version.head.metadata_location != applier.plan.metadata_location:
        need_version(needed, version)
    needed.need_paths(read_staged(context.conn))
    for some in _batches(plan.files):
        needed.judge(some)
    for some in _batches(plan.files):
        yield from needed.judge(some).deletable


def _batches(files: Iterable[ListedFile]) -> Iterator[Sequence[ListedFile]]:
    left = iter(files)
    while some := list(islice(left, _FILES_AT_ONCE)):
        yield some
