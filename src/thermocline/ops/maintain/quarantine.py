"""Orphans moved aside instead of deleted: they can come back until their time is over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import timedelta

from thermocline.catalog import safety as journal
from thermocline.cold.listing import QUARANTINE
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.lake_files import delete_file, open_location
from thermocline.locations import local_path, without_file_scheme
from thermocline.ops.maintain.context import PassContext
from thermocline.ops.maintain.safety import owner_of
from thermocline.pg import Connection


def move_aside(context: PassContext, location: str, orphans: Iterable[ListedFile], say: Callable[[str], None]) -> tuple[int, int]:
    """Move orphans below the table's quarantine folder; how many and how many bytes. The place is noted before the move."""
    until = context.now + timedelta(milliseconds=context.policy.orphan_quarantine_ms)
    moved = size = 0
    for file in orphans:
        kept_at = f"{location.rstrip('/')}/{QUARANTINE}/{context.now:%Y%m%dT%H%M%S}/{_below(file.path, location)}"
        noted = journal.Quarantined(path=file.path, kept_at=kept_at, size_bytes=file.size_bytes, until=until)
        journal.quarantine(context.conn, owner_of(context), noted)
        move_file(file.path, kept_at)
        say(f"{file.path} is kept until {until:%Y-%m-%d %H:%M} as {kept_at}")
        moved, size = moved + 1, size + file.size_bytes
    return moved, size


def empty_quarantine(context: PassContext) -> int:
    """Delete what was kept long enough; the bytes freed."""
    over = [file for file in journal.read_quarantined(context.conn, owner_of(context)) if file.until <= context.now]
    for file in over:
        delete_file(file.kept_at)
    journal.release_quarantined(context.conn, [file.path for file in over])
    return sum(file.size_bytes for file in over)


def restore_quarantined(conn: Connection, owner: journal.Owner) -> int:
    """Move everything back to where it was; how many files came back."""
    files = journal.read_quarantined(conn, owner)
    for file in files:
        move_file(file.kept_at, file.path)
        journal.release_quarantined(conn, [file.path])
    return len(files)


def _below(path: str, location: str) -> str:
    return without_file_scheme(path).removeprefix(without_file_scheme(location)).lstrip("/")


def move_file(source: str, target: str) -> None:
    """Move one file; a move that was done already is no error."""
    here, there = local_path(source), local_path(target)
    if here is not None and there is not None:
        there.parent.mkdir(parents=True, exist_ok=True)
        if here.exists() or not there.exists():
            os.replace(here, there)
        return
    filesystem, old = open_location(source)
    _, new = open_location(target)
    filesystem.copy_file(old, new)
    filesystem.delete_file(old)
