"""List a table's folders in bounded memory: several folders are read at a time, and their files arrive in parts.

Folders have one order, parents before subfolders and those by name, so an interrupted listing resumes after the last
folder that was finished.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from queue import Full, Queue

import pyarrow.fs as fs

from thermocline.core.maintenance.orphans import ListedFile
from thermocline.lake.files.delete_files import QUARANTINE
from thermocline.lake.files.delete_trees import folder_forms
from thermocline.runtime.file_io import open_location
from thermocline.runtime.locations import local_path

_PART, _PARTS_AHEAD = 500, 4
_LOCAL_AT_ONCE, _STORE_AT_ONCE = 2, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPart:
    """Some files of a folder. `finished` comes with the folder's last part: every folder up to it is listed, in
    order."""

    files: tuple[ListedFile, ...] = ()
    finished: str | None = None


def list_files(folder: str, leave_out: Sequence[str] = ()) -> Iterator[ListedFile]:
    """Every file below a location, spelled as the location is. Links are not followed; `leave_out` are folders of other
    owners."""
    for part in list_parts(folder, leave_out):
        yield from part.files


def list_folder(folder: str) -> Iterator[ListedFile]:
    """The files of one folder, without subfolders."""
    for part in list_parts(folder):
        if part.finished == "":
            return
        yield from part.files


def list_parts(root: str, leave_out: Sequence[str] = (), after: str | None = None) -> Iterator[ListedPart]:
    """The files below a location in parts, from folders after `after`, which is relative to the location."""
    reading = _Reading(root.rstrip("/"), leave_out)
    waiting, started = deque([""]), dict[str, Queue[_Found]]()
    try:
        while waiting:
            for name in islice(waiting, reading.at_once):
                if name not in started and (name == waiting[0] or len(started) < reading.at_once):
                    started[name] = reading.start(name)
            name, below = waiting.popleft(), list[str]()
            is_new = after is None or _sort_key(name) > _sort_key(after)
            for found in iter(started.pop(name).get, _END):
                if found.problem is not None:
                    raise found.problem
                below += found.folders
                if is_new and found.files:
                    yield ListedPart(files=found.files)
            if is_new:
                yield ListedPart(finished=name)
            waiting.extendleft(
                sorted((child for child in below if not _is_finished(child, after)), key=_sort_key, reverse=True)
            )
    finally:
        reading.over.set()


def _sort_key(name: str) -> tuple[str, ...]:
    return tuple(name.split("/")) if name else ()


def _is_finished(name: str, after: str | None) -> bool:
    """Whether a folder and everything below it precede `after`."""
    return (
        after is not None
        and _sort_key(name) < _sort_key(after)
        and _sort_key(after)[: len(_sort_key(name))] != _sort_key(name)
    )


@dataclass(frozen=True, slots=True)
class _Found:
    files: tuple[ListedFile, ...] = ()
    folders: tuple[str, ...] = ()
    problem: Exception | None = None


_END = _Found()


class _Stopped(Exception):
    """The consumer has stopped."""


class _Reading:
    """Reads folders, each in a thread that waits when it is too far ahead of the consumer."""

    def __init__(self, root: str, leave_out: Sequence[str]) -> None:
        self.over = threading.Event()
        self._root = root
        self._local = local_path(root)
        self.at_once = _STORE_AT_ONCE if self._local is None else _LOCAL_AT_ONCE
        self._left_out = frozenset(form for folder in leave_out for form in folder_forms(folder))

    def start(self, name: str) -> Queue[_Found]:
        queue: Queue[_Found] = Queue(_PARTS_AHEAD)
        threading.Thread(target=self._read, args=(name, queue), name="list", daemon=True).start()
        return queue

    def _read(self, name: str, queue: Queue[_Found]) -> None:
        try:
            left = self._stored(name) if self._local is None else self._walked(name)
            while part := list(islice(left, _PART)):
                files = tuple(found for found in part if isinstance(found, ListedFile))
                self._put(queue, _Found(files, tuple(found for found in part if isinstance(found, str))))
            self._put(queue, _END)
        except _Stopped:
            return
        except Exception as problem:
            self._put(queue, _Found(problem=problem))

    def _put(self, queue: Queue[_Found], found: _Found) -> None:
        while not self.over.is_set():
            try:
                return queue.put(found, timeout=0.2)
            except Full:
                continue
        raise _Stopped

    def _walked(self, name: str) -> Iterator[ListedFile | str]:
        """Files and subfolders of a local folder; entries that vanish meanwhile are left out."""
        try:
            entries = os.scandir(f"{self._local}/{name}".rstrip("/"))
        except FileNotFoundError:
            return
        prefix = f"{name}/" if name else ""
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != QUARANTINE and not self._is_left_out(entry.path):
                        yield f"{prefix}{entry.name}"
                elif entry.is_file(follow_symlinks=False):
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    modified = datetime.fromtimestamp(status.st_mtime, UTC)
                    yield ListedFile(
                        path=f"{self._root}/{prefix}{entry.name}", size_bytes=status.st_size, modified=modified
                    )

    def _stored(self, name: str) -> Iterator[ListedFile | str]:
        """Files and subfolders of a folder in an object store."""
        filesystem, inner = open_location(f"{self._root}/{name}".rstrip("/"))
        prefix = f"{name}/" if name else ""
        for found in filesystem.get_file_info(fs.FileSelector(inner, recursive=False, allow_not_found=True)):
            if found.path.rstrip("/") == inner:
                continue  # keys with two slashes in a row are in a folder without a name: they are never deleted
            below = prefix + found.path.removeprefix(inner).lstrip("/")
            spelled = f"{self._root}/{below}"
            if found.type == fs.FileType.Directory and found.base_name != QUARANTINE and not self._is_left_out(spelled):
                yield below.rstrip("/")
            elif found.type == fs.FileType.File:
                yield ListedFile(path=spelled, size_bytes=found.size or 0, modified=found.mtime)

    def _is_left_out(self, folder: str) -> bool:
        return bool(self._left_out) and not self._left_out.isdisjoint(folder_forms(folder))
