"""The orphan sweep: files in the table's folders that nothing names.

    list → keep what is named, staged or young → look again → delete, or move aside

The listing streams, and goes on where it was when it was cut off. What is needed is held as hashes, and candidates are spooled to disk,
because nothing is deleted before the whole listing was compared: one file named under another spelling stops the sweep. What was committed
meanwhile is read before the first delete.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import IO

from thermocline.catalog import sweeps
from thermocline.catalog.safety import read_staged
from thermocline.cold.listing import list_parts
from thermocline.cold.reachable import PathSet, every_path
from thermocline.core.maintenance.orphans import ListedFile, judge_age, loose_spelling
from thermocline.core.maintenance.outcome import Outcome
from thermocline.faults import fault_point
from thermocline.maintenance_errors import SpellingsDiffer
from thermocline.ops.maintain.context import PassContext
from thermocline.ops.maintain.deletion import delete_files, is_within
from thermocline.ops.maintain.neighbours import plan_folders
from thermocline.ops.maintain.quarantine import empty_quarantine, move_aside
from thermocline.ops.maintain.safety import LakeVersion, check_may_delete, look, owner_of, read_bounds, roots_of

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
    details: list[str] = field(default_factory=list)

    def say(self, sentence: str) -> None:
        if len(self.details) < _NAMED:
            self.details.append(sentence)


def run_remove_orphans(context: PassContext) -> Outcome:
    """Delete files of the table's folders that nothing names, past the grace period."""
    started = time.monotonic()
    version = look(context)
    check_may_delete(version)
    # The older of two clocks: one that runs ahead must not make files old.
    done = Swept(now=min(context.now, datetime.now(UTC)), grace=timedelta(milliseconds=context.policy.orphan_grace_ms))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
        _compare(context, version, spool, done)
        fault_point("orphans-listed")
        orphans = _still_orphans(context, version, spool)
        if context.dry_run:
            _describe(orphans, done)
        elif context.policy.orphan_quarantine_ms:
            done.orphans, done.bytes = move_aside(context, version.metadata.location, orphans, done.say)
        else:
            _delete(orphans, done)
    if not context.dry_run:
        sweeps.forget_sweep(context.conn, owner_of(context))
        done.bytes += empty_quarantine(context)
    return _told(context, done, started)


@dataclass(slots=True, kw_only=True)
class _Comparing:
    """What somebody needs, and the listed files it is compared with."""

    table: str
    spool: IO[str]
    done: Swept
    roots: tuple[str, ...]
    needed: PathSet = field(default_factory=PathSet)
    loosely: PathSet = field(default_factory=PathSet)
    elsewhere: PathSet = field(default_factory=PathSet)
    """Names of the table's files outside of its folders, without their place."""

    def need(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.needed.add([path])
            self.loosely.add([loose_spelling(path)])
            if not is_within(path, self.roots):
                self.elsewhere.add([path.rpartition("/")[2]])

    def compare(self, files: Sequence[ListedFile]) -> None:
        """Spool the old files that nothing names; refuse when one of them is named under another spelling."""
        self.done.listed += len(files)
        named = self.needed.which([file.path for file in files])
        old = []
        for file in (file for file, is_named in zip(files, named, strict=True) if not is_named):
            if judge_age(file, self.done.now, self.done.grace).is_orphan:
                old.append(file)
            else:
                self.done.kept += 1
                self.done.unknown_age += file.modified is None
        for file, is_spelled in zip(old, self.loosely.which([loose_spelling(file.path) for file in old]), strict=True):
            if is_spelled:
                raise SpellingsDiffer(
                    f"{self.table}: the listing has {file.path}, and the table's metadata names that file under another spelling."
                )
        # Names are made to be unique: the same one elsewhere is a folder that was moved and left a link, or a store with two names.
        for file, is_elsewhere in zip(old, self.elsewhere.which([file.path.rpartition("/")[2] for file in old]), strict=True):
            if is_elsewhere:
                raise SpellingsDiffer(
                    f"{self.table}: the listing has {file.path}, and the table names a file of that name in another place."
                )
            self.spool.write(_to_line(file))


def _to_line(file: ListedFile) -> str:
    return json.dumps([file.path, file.size_bytes, file.modified.isoformat() if file.modified else None]) + "\n"


def _from_line(line: str) -> ListedFile:
    path, size, modified = json.loads(line)
    return ListedFile(path=path, size_bytes=size, modified=datetime.fromisoformat(modified) if modified else None)


def _compare(context: PassContext, version: LakeVersion, spool: IO[str], done: Swept) -> None:
    """Compare the listing with what is needed; a listing that was cut off goes on where it was, with what it had found judged anew."""
    folders = plan_folders(context, version)
    for reason in folders.reasons:
        done.say(reason)
    comparing = _Comparing(table=str(context.target.name), spool=spool, done=done, roots=roots_of(version))
    bounds = read_bounds(context, version)
    context.note_bounds(bounds)
    comparing.need(every_path(version.metadata, version.head.metadata_location))
    comparing.need((*bounds.metadata_files, *bounds.staged_files))
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
        for part in list_parts(root, folders.left_out, place.after if place is not None and root == place.root else None):
            comparing.compare(part.files)
            if part.finished is not None and not context.dry_run and time.monotonic() - saved_at >= _SAVE_EVERY_SECONDS:
                _save(context, sweeps.SweepPlace(root=root, after=part.finished, listed=done.listed), spool, saved)
                saved, saved_at = spool.tell(), time.monotonic()


def _save(context: PassContext, place: sweeps.SweepPlace, spool: IO[str], saved: int) -> None:
    """Note how far the listing is, with what was spooled since the last note."""
    spool.seek(saved)
    sweeps.save_sweep(context.conn, owner_of(context), place, map(_from_line, spool))
    spool.seek(0, os.SEEK_END)
    fault_point("orphans-saved")
    context.talk(f"remove_orphans: {place.listed} files listed")


def _still_orphans(context: PassContext, version: LakeVersion, spool: IO[str]) -> Iterator[ListedFile]:
    """The candidates that nothing has taken up since the listing."""
    again = look(context)
    needed = PathSet()
    if again.head.metadata_location != version.head.metadata_location:
        needed.add(every_path(again.metadata, again.head.metadata_location))
    staged = read_staged(context.conn)
    spool.seek(0)
    for file in map(_from_line, spool):
        if file.path not in needed and file.path not in staged:
            yield file


def _describe(orphans: Iterator[ListedFile], done: Swept) -> None:
    for file in orphans:
        done.orphans += 1
        done.bytes += file.size_bytes
        done.say(f"{file.path} ({file.size_bytes} bytes): {judge_age(file, done.now, done.grace).reason}")


def _delete(orphans: Iterator[ListedFile], done: Swept) -> None:
    sizes: dict[str, int] = {}

    def paths() -> Iterator[str]:
        for file in orphans:
            sizes[file.path] = file.size_bytes
            yield file.path

    for part in delete_files(paths()):
        done.orphans += len(part.paths)
        done.bytes += sum(sizes.pop(path) for path in part.paths)
        for path, problem in part.failed:
            done.say(f"{path} could not be deleted: {problem}")


def _told(context: PassContext, done: Swept, started: float) -> Outcome:
    details = list(done.details)
    if done.unknown_age:
        details.append(f"{done.unknown_age} file(s) of unknown age stay")
    if done.kept:
        details.append(f"{done.kept} file(s) that nothing names are not past the grace period")
    verb = "would remove" if context.dry_run else "quarantined" if context.policy.orphan_quarantine_ms else "removed"
    return Outcome(
        operation="remove_orphans",
        status="done" if done.orphans and not context.dry_run else "skipped",
        sentence=f"{verb} {done.orphans} orphan file(s)" if done.orphans else f"no orphan files among {done.listed} listed",
        counters={
            "orphans_removed": 0 if context.dry_run else done.orphans,
            "files_listed": done.listed,
            "bytes_freed": 0 if context.dry_run else done.bytes,
            "duration_ms": int((time.monotonic() - started) * 1000),
        },
        details=tuple(details),
    )
