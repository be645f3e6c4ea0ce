"""Quarantine: orphans are moved instead of deleted, and can be restored until they are overdue.

    note where it goes → move → note that it went
        a kill in between leaves the file in its place, in quarantine, or in both
    note what is wanted back → move each → forget its note
        what is wanted back is never deleted, however often the restore is killed

Invariant: a noted file is whole in at least one of its two places until its time is over and nobody wants it. Each note
is locked while its file is touched, so a pass that deletes and a restore never meet on one file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from thermocline.catalog.maintenance import quarantine as notes
from thermocline.catalog.maintenance.quarantine import Quarantined
from thermocline.catalog.safety import Owner
from thermocline.core.lake_paths import canonical_path, split_path
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.errors.maintenance import PathSpellingsDiffer
from thermocline.lake.files.delete_files import QUARANTINE, delete_file, drop_copy, is_there, move_aside, move_back
from thermocline.lake.files.deletion_check import Deletable, NeededFiles
from thermocline.maintain.context import PassContext
from thermocline.maintain.plans.safety import owner_of
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection

Say = Callable[[str], None]
Check = Callable[[Iterable[Deletable]], Iterable[Deletable]]
"""Gives back the files, each after it was found in the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The number of restored files, those whose path another file has, and those that are missing."""

    back: int
    taken: tuple[Quarantined, ...] = ()
    gone: tuple[Quarantined, ...] = ()


def quarantine_files(context: PassContext, location: str, orphans: Iterable[Deletable], say: Say) -> tuple[int, int]:
    """Move orphans below the table's quarantine folder; the number of files and bytes. The target is recorded before
    the move."""
    until = context.now + timedelta(milliseconds=context.policy.orphan_quarantine_ms)
    moved = size = 0
    for file in orphans:
        kept_at = f"{location.rstrip('/')}/{QUARANTINE}/{context.now:%Y%m%dT%H%M%S}/{_below(file.path, location)}"
        note = Quarantined(path=file.path, kept_at=kept_at, size_bytes=file.size_bytes, until=until)
        notes.insert_note(context.conn, owner_of(context), note)
        fault_point("quarantine-noted")
        with notes.locked(context.conn, kept_at) as is_ours:
            if not is_ours:
                continue  # requested by a restore: it stays in its place
            move_aside(file, kept_at)
            fault_point("quarantine-moved")
            notes.note_moved(context.conn, kept_at)
        say(f"{file.path} is kept until {until:%Y-%m-%d %H:%M} as {kept_at}")
        moved, size = moved + 1, size + file.size_bytes
    return moved, size


def settle_moves(context: PassContext) -> None:
    """Settle interrupted moves: a file still at its original path is not quarantined, and the sweep judges it again."""
    for note in notes.read_notes(context.conn, owner_of(context), "unmoved"):
        with notes.locked(context.conn, note.kept_at) as is_ours:
            if not is_ours:
                continue
            if not is_there(note.kept_at) or drop_copy(note.kept_at, note.path):
                notes.release(context.conn, note.kept_at)
            else:
                notes.note_moved(context.conn, note.kept_at)


def read_overdue(context: PassContext) -> tuple[ListedFile, ...]:
    """Quarantined files that are overdue and that no restore requests, by their paths in quarantine."""
    overdue = notes.read_notes(context.conn, owner_of(context), "over", now=context.now)
    return tuple(ListedFile(path=note.kept_at, size_bytes=note.size_bytes, modified=None) for note in overdue)


def empty_quarantine(
    context: PassContext, overdue: Sequence[ListedFile], needed: NeededFiles, check: Check, say: Say
) -> int:
    """Delete the overdue files that no restore requests by now; the bytes freed. `check` refuses files that are not
    planned."""
    freed, planned = 0, {file.path for file in overdue}
    for note in notes.read_notes(context.conn, owner_of(context), "over", now=context.now):
        if note.kept_at not in planned:
            continue
        if needed.may_be_needed(note.path):
            say(f"{note.kept_at} stays: the table names {note.path} now, `thermocline lake restore` brings it back")
            continue
        with notes.locked(context.conn, note.kept_at) as is_ours:
            if is_ours and _delete_kept(note, needed, check, say):
                notes.release(context.conn, note.kept_at)
                freed += note.size_bytes
    return freed


def _delete_kept(note: Quarantined, needed: NeededFiles, check: Check, say: Say) -> bool:
    try:
        found = needed.judge([ListedFile(path=note.kept_at, size_bytes=note.size_bytes, modified=None)])
    except PathSpellingsDiffer as refusal:
        say(str(refusal))
        return False
    for file in check(found.deletable):
        delete_file(file)
    return bool(found.deletable)


def restore_quarantined(conn: Connection, owner: Owner) -> Restored:
    """Move all quarantined files back. After a crash it can be repeated; until then none of them is deleted."""
    notes.note_wanted(conn, owner)
    back, taken, gone = 0, list[Quarantined](), list[Quarantined]()
    for note in notes.read_notes(conn, owner, "wanted"):
        with notes.locked(conn, note.kept_at, wanted=True) as is_ours:
            if not is_ours:
                continue
            try:
                is_back = move_back(note.kept_at, note.path)
            except FileNotFoundError:
                gone.append(note)
                notes.release(conn, note.kept_at)
                continue
            fault_point("restore-moved")
            if is_back:
                notes.release(conn, note.kept_at)
                back += 1
            else:
                taken.append(note)
    return Restored(back=back, taken=tuple(taken), gone=tuple(gone))


def _below(path: str, location: str) -> str:
    """The path of a file below the quarantine folder: relative to the table's folder, or its full path."""
    text, folder = canonical_path(path), canonical_path(location).rstrip("/") + "/"
    _, authority, rest = split_path(text)
    return text.removeprefix(folder) if text.startswith(folder) else f"{authority}/{rest.lstrip('/')}".lstrip("/")
