"""The orphan sweep: files in the table's folders that nothing names.

    list → keep what is named, staged or young → look again → delete, or move aside

The listing streams, and goes on where it was when it was cut off. What is needed is held as hashes, and candidates are
spooled to disk, because nothing is deleted before the whole listing was compared: one file named under another spelling
stops the sweep. What was committed meanwhile is read before the first delete. Ages are judged by the store's clock.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import IO

from thermocline.catalog.maintenance import sweeps
from thermocline.catalog.safety import read_staged
from thermocline.core.maintenance.orphans import ListedFile, judge_age
from thermocline.core.maintenance.outcome import Outcome
from thermocline.lake.files.delete_files import delete_files
from thermocline.lake.files.deletion_check import Deletable, NeededFiles
from thermocline.lake.files.listing import list_parts
from thermocline.maintain.context import PassContext
from thermocline.maintain.neighbour_tables import plan_folders
from thermocline.maintain.operations.quarantine import empty_quarantine, quarantine_files, settle_moves
from thermocline.maintain.safety import (
    LakeVersion,
    check_may_delete,
    look,
    need_version,
    owner_of,
    read_bounds,
    read_clock,
    roots_of,
)
from thermocline.runtime.fault_points import fault_point

_NAMED = 1000
_SAVE_EVERY_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class Swept:
    """What a sweep found and did."""

    now: datetime
    grace: timedelta
    listed: int = 0
    kept: int = 0
    unknown_age: int = 0
    orphans: int = 0
    bytes: int = 0
    kept_elsewhere: int = 0
    """Files that nothing names, in folders that only a link leads to or under names that are not safe to delete."""
    details: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    """Of the first files: why each is an orphan."""

    def say(self, sentence: str) -> None:
        if len(self.details) < _NAMED:
            self.details.append(sentence)


def run_remove_orphans(context: PassContext) -> Outcome:
    """Delete files of the table's folders that nothing names, past the grace period."""
    started = time.monotonic()
    version = look(context)
    check_may_delete(context, version)
    done = Swept(now=read_clock(version), grace=timedelta(milliseconds=context.policy.orphan_grace_ms))
    if not context.dry_run:
        settle_moves(context)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
        comparing = _compare(context, version, spool, done)
        fault_point("orphans-listed")
        orphans = _still_orphans(context, version, comparing)
        if context.dry_run:
            _describe(orphans, done)
        elif context.policy.orphan_quarantine_ms:
            done.orphans, done.bytes = quarantine_files(context, version.metadata.location, orphans, done.say)
        else:
            _delete(orphans, done)
    if not context.dry_run:
        sweeps.forget_sweep(context.conn, owner_of(context))
        done.bytes += empty_quarantine(context, comparing.needed, done.say)
    return _told(context, done, started)


@dataclass(slots=True, kw_only=True)
class _Comparing:
    """What somebody needs, and the listed files it is compared with."""

    spool: IO[str]
    done: Swept
    needed: NeededFiles

    def compare(self, files: Sequence[ListedFile]) -> None:
        """Spool the old files that nothing names; refuse when one of them may be named under another spelling."""
        self.done.listed += len(files)
        old = []
        for file, is_named in zip(files, self.needed.names([file.path for file in files]), strict=True):
            judged = judge_age(file, self.done.now, self.done.grace)
            if not is_named and judged.is_orphan:
                old.append(file)
            elif not is_named:
                self.done.kept += 1
                self.done.unknown_age += file.modified is None
        found = self.needed.judge(old)
        self.done.kept_elsewhere += found.outside
        free = {file.path for file in found.deletable}
        for file in old:
            if file.path in free:
                self.spool.write(_to_line(file))
                if len(self.done.reasons) < _NAMED:
                    self.done.reasons[file.path] = judge_age(file, self.done.now, self.done.grace).reason

    def candidates(self) -> Iterator[Sequence[ListedFile]]:
        """What was spooled, a few files at a time."""
        self.spool.seek(0)
        left = map(_from_line, self.spool)
        while some := list(islice(left, _NAMED)):
            yield some


def _to_line(file: ListedFile) -> str:
    return json.dumps([file.path, file.size_bytes, file.modified.isoformat() if file.modified else None]) + "\n"


def _from_line(line: str) -> ListedFile:
    path, size, modified = json.loads(line)
    return ListedFile(path=path, size_bytes=size, modified=datetime.fromisoformat(modified) if modified else None)


def _compare(context: PassContext, version: LakeVersion, spool: IO[str], done: Swept) -> _Comparing:
    """Compare the listing with what is needed; a listing that was cut off goes on where it was, with what it had found
    judged anew."""
    folders = plan_folders(context, version)
    for reason in folders.reasons:
        done.say(reason)
    needed = NeededFiles(str(context.target.name), roots_of(version), refuses_other_spellings=True)
    comparing = _Comparing(spool=spool, done=done, needed=needed)
    bounds = read_bounds(context, version)
    context.note_bounds(bounds)
    need_version(needed, version)
    needed.need_paths((*bounds.metadata_files, *bounds.staged_files))
    roots = folders.roots
    place = None if context.dry_run else sweeps.read_sweep(context.conn, owner_of(context))
    if place is not None and place.root in roots:
        roots = roots[roots.index(place.root) :]
        found = sweeps.read_candidates(context.conn, owner_of(context))
        while some := list(islice(found, _NAMED)):
            comparing.compare(some)
        done.listed = place.listed
    elif not context.dry_run:
        place = None
        sweeps.forget_sweep(context.conn, owner_of(context))
    saved, saved_at = spool.tell(), time.monotonic()
    for root in roots:
        for part in list_parts(
            root, folders.left_out, place.after if place is not None and root == place.root else None
        ):
            comparing.compare(part.files)
            if part.finished is not None and not context.dry_run and time.monotonic() - saved_at >= _SAVE_EVERY_SECONDS:
                _save(context, sweeps.SweepPlace(root=root, after=part.finished, listed=done.listed), spool, saved)
                saved, saved_at = spool.tell(), time.monotonic()
    return comparing


def _save(context: PassContext, place: sweeps.SweepPlace, spool: IO[str], saved: int) -> None:
    """Note how far the listing is, with what was spooled since the last note."""
    spool.seek(saved)
    sweeps.save_sweep(context.conn, owner_of(context), place, map(_from_line, spool))
    spool.seek(0, os.SEEK_END)
    fault_point("orphans-saved")
    context.report_progress(f"remove_orphans: {place.listed} files listed")


def _still_orphans(context: PassContext, version: LakeVersion, comparing: _Comparing) -> Iterator[Deletable]:
    """The candidates that nothing has taken up since the listing. All of them are compared before the first is
    given."""
    again = look(context)
    check_may_delete(context, again)
    if again.head.metadata_location != version.head.metadata_location:
        need_version(comparing.needed, again)
    comparing.needed.need_paths(read_staged(context.conn))
    for some in comparing.candidates():
        comparing.needed.judge(some)
    for some in comparing.candidates():
        yield from comparing.needed.judge(some).deletable


def _describe(orphans: Iterator[Deletable], done: Swept) -> None:
    for file in orphans:
        done.orphans += 1
        done.bytes += file.size_bytes
        done.say(f"{file.path} ({file.size_bytes} bytes): {done.reasons.get(file.path, 'named by nothing')}")


def _delete(orphans: Iterator[Deletable], done: Swept) -> None:
    for part in delete_files(orphans):
        done.orphans += len(part.files)
        done.bytes += sum(file.size_bytes for file in part.files)
        for file, problem in part.failed:
            done.say(f"{file.path} could not be deleted: {problem}")


def _told(context: PassContext, done: Swept, started: float) -> Outcome:
    details = list(done.details)
    if done.unknown_age:
        details.append(f"{done.unknown_age} file(s) of unknown age stay")
    if done.kept_elsewhere:
        details.append(f"{done.kept_elsewhere} file(s) stay whose names or folders other programs read otherwise")
    if done.kept:
        details.append(f"{done.kept} file(s) that nothing names are not past the grace period")
    verb = "would remove" if context.dry_run else "quarantined" if context.policy.orphan_quarantine_ms else "removed"
    return Outcome(
        operation="remove_orphans",
        status="done" if done.orphans and not context.dry_run else "skipped",
        sentence=f"{verb} {done.orphans} orphan file(s)"
        if done.orphans
        else f"no orphan files among {done.listed} listed",
        counters={
            "orphans_removed": 0 if context.dry_run else done.orphans,
            "files_listed": done.listed,
            "bytes_freed": 0 if context.dry_run else done.bytes,
            "duration_ms": int((time.monotonic() - started) * 1000),
        },
        details=tuple(details),
    )
