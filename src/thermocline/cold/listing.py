"""Listing what lies in a table's folders, file by file, without holding the listing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pyarrow.fs as fs

from thermocline.core.maintenance.orphans import ListedFile
from thermocline.lake_files import open_location
from thermocline.locations import local_path

QUARANTINE = "_thermocline_quarantine"


def list_files(folder: str, leave_out: Sequence[str] = ()) -> Iterator[ListedFile]:
    """Every file below a location, spelled as the location is. Links are not followed; `leave_out` are folders of other owners."""
    if (root := local_path(folder)) is not None:
        skipped = {str(path) for place in leave_out if (path := local_path(place)) is not None}
        yield from _walk(folder.rstrip("/"), str(root).rstrip("/"), skipped)
        return
    filesystem, inner = open_location(folder)
    prefix = folder.rstrip("/")
    for found in filesystem.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True)):
        spelled = prefix + found.path.removeprefix(inner)
        if found.type == fs.FileType.File and not _is_left_out(spelled, leave_out):
            yield ListedFile(path=spelled, size_bytes=found.size or 0, modified=found.mtime)


def _is_left_out(path: str, leave_out: Sequence[str]) -> bool:
    return f"/{QUARANTINE}/" in path or any(path.startswith(place.rstrip("/") + "/") for place in leave_out)


def _walk(spelled: str, folder: str, skipped: set[str]) -> Iterator[ListedFile]:
    try:
        found = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in found:
        place = f"{spelled}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if entry.name != QUARANTINE and entry.path not in skipped:
                yield from _walk(place, entry.path, skipped)
        elif entry.is_file(follow_symlinks=False):
            try:
                seen = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield ListedFile(path=place, size_bytes=seen.st_size, modified=datetime.fromtimestamp(seen.st_mtime, UTC))
