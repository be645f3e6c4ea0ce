"""Delete files of the lake, or move them to quarantine: each function requires the proof that no one needs the file."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.fs as fs

from thermocline.lake.files.deletion_check import Deletable
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.file_io import flush_to_disk, open_location
from thermocline.runtime.locations import local_path

QUARANTINE = "_thermocline_quarantine"
_AT_ONCE = 16
_BATCH = 1000
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionResult:
    """The files that were deleted, and those that could not be."""

    files: tuple[Deletable, ...]
    failed: tuple[tuple[Deletable, str], ...]


def delete_file(file: Deletable) -> None:
    """Delete one file; a missing file is not an error."""
    _remove(file.path)


def delete_files(files: Iterable[Deletable]) -> Iterator[DeletionResult]:
    """Delete files in batches; a failure is reported and does not stop the others."""
    left = iter(files)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delete") as pool:
        while batch := list(islice(left, _BATCH)):
            answers = list(zip(batch, pool.map(_try_delete, batch), strict=True))
            yield DeletionResult(
                files=tuple(file for file, problem in answers if problem is None),
                failed=tuple((file, problem) for file, problem in answers if problem is not None),
            )


def _try_delete(file: Deletable) -> str | None:
    try:
        delete_file(file)
    except OSError as problem:
        return problem.strerror or str(problem)
    return None


def with_sizes(files: Sequence[Deletable]) -> tuple[Deletable, ...]:
    """The files with their sizes; sizes that the metadata lacks (manifest lists) are read from the store."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="size") as pool:
        unknown = [file.path for file in files if not file.size_bytes]
        found = dict(zip(unknown, pool.map(_try_size, unknown), strict=True))
    return tuple(file if file.size_bytes else file.with_size(found[file.path]) for file in files)


def _try_size(path: str) -> int:
    try:
        filesystem, inner = open_location(path)
        return filesystem.get_file_info(inner).size or 0
    except OSError:
        return 0


def move_aside(file: Deletable, kept_at: str) -> None:
    """Move a file to a quarantine folder. After a crash the file is complete in one of the two locations, or in both; a
    repeated call completes the move."""
    _check_is_quarantine(kept_at)
    _move(file.path, kept_at)


def move_back(kept_at: str, path: str) -> bool:
    """Move a file out of quarantine to its original path, without overwriting; whether it is there now.

    False where another file has the path: both stay. Raises FileNotFoundError when it is in neither location.
    """
    _check_is_quarantine(kept_at)
    if not is_there(kept_at):
        if is_there(path):
            return True
        raise FileNotFoundError(f"{path} is neither in its place nor in quarantine.")
    if is_there(path) and not has_same_bytes(kept_at, path):
        return False
    _move(kept_at, path)
    if (local := local_path(path)) is not None:
        os.utime(local)  # the grace period of a file that was needed starts again
    return True


def _check_is_quarantine(path: str) -> None:
    if f"/{QUARANTINE}/" not in path:
        raise ValueError(f"{path} is not in a quarantine folder")


def _move(source: str, target: str) -> None:
    here, there = local_path(source), local_path(target)
    if here is not None and there is not None:
        _move_on_disk(here, there)
        return
    if not is_there(source):
        if is_there(target):
            return
        raise FileNotFoundError(source)
    if not has_same_bytes(source, target):
        filesystem, old = open_location(source)
        _, new = open_location(target)
        filesystem.copy_file(old, new)  # in an object store a copy is atomic
        fault_point("move-copied")
    _remove(source)


def _move_on_disk(here: Path, there: Path) -> None:
    there.parent.mkdir(parents=True, exist_ok=True)
    if not here.exists() and there.exists():
        return
    if here.parent.stat().st_dev == there.parent.stat().st_dev:
        os.replace(here, there)
        return
    partial = there.with_name(f".{there.name}.partial")
    shutil.copy2(here, partial)
    flush_to_disk(str(partial))
    os.replace(partial, there)
    here.unlink()


def drop_copy(kept_at: str, path: str) -> bool:
    """Delete the quarantined copy of a file that is also at its original path; whether there was one."""
    _check_is_quarantine(kept_at)
    if not has_same_bytes(kept_at, path):
        return False
    _remove(kept_at)
    return True


def is_there(location: str) -> bool:
    filesystem, path = open_location(location)
    return bool(filesystem.get_file_info(path).type == fs.FileType.File)


def has_same_bytes(one: str, other: str) -> bool:
    """Whether both files exist and have the same content."""
    here, there = local_path(one), local_path(other)
    if here is not None and there is not None:
        return here.exists() and there.exists() and filecmp.cmp(here, there, shallow=False)
    filesystem, first = open_location(one)
    _, second = open_location(other)
    found = filesystem.get_file_info([first, second])
    if any(info.type != fs.FileType.File for info in found) or found[0].size != found[1].size:
        return False
    with filesystem.open_input_stream(first) as a, filesystem.open_input_stream(second) as b:
        while (part := a.read(_CHUNK_BYTES)) == b.read(_CHUNK_BYTES):
            if not part:
                return True
    return False


def _remove(location: str) -> None:
    if (file := local_path(location)) is not None:
        file.unlink(missing_ok=True)
        return
    filesystem, path = open_location(location)
    try:
        filesystem.delete_file(path)
    except FileNotFoundError:
        return
