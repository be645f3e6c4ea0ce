"""The orphan sweep: files in the table's folders that nothing names.

    list → keep what is named, staged or young → look again → delete, or move aside

The listing streams; what is needed is held as hashes, and candidates are spooled to disk, because nothing is deleted before the whole
listing was compared: one file named under another spelling stops the sweep. What was committed meanwhile is read before the first delete.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import IO

from thermocline.catalog.safety import read_locations, read_staged
from thermocline.cold.listing import list_files
from thermocline.cold.reachable import PathSet, every_path
from thermocline.core.maintenance.orphans import ListedFile, judge_age, loose_spelling
from thermocline.core.maintenance.outcome import Outcome
from thermocline.faults import fault_point
from thermocline.locations import without_file_scheme
from thermocline.maintenance_errors import GcForbidden, SpellingsDiffer
from thermocline.ops.maintain.context import PassContext
from thermocline.ops.maintain.deletion import delete_files
from thermocline.ops.maintain.quarantine import empty_quarantine, move_aside
from thermocline.ops.maintain.safety import LakeVersion, check_may_delete, look, read_bounds, roots_of

_NAMED = 1000


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
        done.bytes += empty_quarantine(context)
    return _told(context, done, started)


def _compare(context: PassContext, version: LakeVersion, spool: IO[str], done: Swept) -> None:
    """Spool the old files that nothing names; refuse when one of them is named under another spelling."""
    needed, loosely = PathSet(), PathSet()
    bounds = read_bounds(context, version)
    context.note_bounds(bounds)
    for path in (*every_path(version.metadata, version.head.metadata_location), *bounds.metadata_files, *bounds.staged_files):
        needed.add([path])
        loosely.add([loose_spelling(path)])
    others = _folders_of_others(context, version)
    for root in roots_of(version):
        for file in list_files(root, others):
            done.listed += 1
            if file.path in needed:
                continue
            judged = judge_age(file, done.now, done.grace)
            if not judged.is_orphan:
                done.kept += 1
                done.unknown_age += file.modified is None
            elif loose_spelling(file.path) in loosely:
                raise SpellingsDiffer(
                    f"{context.target.name}: the listing has {file.path}, and the table's metadata names that file under another spelling."
                )
            else:
                spool.write(json.dumps([file.path, file.size_bytes, file.modified.isoformat() if file.modified else None]) + "\n")


def _folders_of_others(context: PassContext, version: LakeVersion) -> list[str]:
    mine = version.metadata.location.rstrip("/")
    others = {name: place.rstrip("/") for name, place in read_locations(context.conn).items() if name != context.target.name}
    if shared := next((name for name, place in others.items() if without_file_scheme(place) == without_file_scheme(mine)), None):
        raise GcForbidden(f"{context.target.name} and {shared} have their files in one folder, {mine}: whose a file is cannot be told.")
    return [place for place in others.values() if place]


def _still_orphans(context: PassContext, version: LakeVersion, spool: IO[str]) -> Iterator[ListedFile]:
    """The candidates that nothing has taken up since the listing."""
    again = look(context)
    needed = PathSet()
    if again.head.metadata_location != version.head.metadata_location:
        needed.add(every_path(again.metadata, again.head.metadata_location))
    staged = read_staged(context.conn)
    spool.seek(0)
    for line in spool:
        path, size, modified = json.loads(line)
        if path not in needed and path not in staged:
            yield ListedFile(path=path, size_bytes=size, modified=datetime.fromisoformat(modified) if modified else None)


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
