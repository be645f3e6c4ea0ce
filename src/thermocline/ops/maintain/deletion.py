"""Deleting files of the lake: many at once, each only when nothing needs it, and none outside the table's own folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from thermocline.lake_files import delete_file, open_location
from thermocline.locations import without_file_scheme

_AT_ONCE = 16
_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """What went, and what would not go."""

    paths: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def delete_files(paths: Iterable[str]) -> Iterator[Deleted]:
    """Delete file by file, a batch at a time; a failure is told and does not stop the others."""
    left = iter(paths)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="delete") as pool:
        while batch := list(islice(left, _BATCH)):
            answers = list(pool.map(_try_delete, batch))
            yield Deleted(
                paths=tuple(path for path, problem in zip(batch, answers, strict=True) if problem is None),
                failed=tuple((path, problem) for path, problem in zip(batch, answers, strict=True) if problem is not None),
            )


def _try_delete(path: str) -> str | None:
    try:
        delete_file(path)
    except OSError as problem:
        return problem.strerror or str(problem)
    return None


def with_sizes(files: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """The files with their sizes; those that the metadata does not tell (manifest lists) are asked of the store."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="size") as pool:
        unknown = [path for path, size in files if not size]
        found = dict(zip(unknown, pool.map(_try_size, unknown), strict=True))
    return tuple((path, size or found[path]) for path, size in files)


def _try_size(path: str) -> int:
    try:
        filesystem, inner = open_location(path)
        return filesystem.get_file_info(inner).size or 0
    except OSError:
        return 0


def is_within(path: str, roots: Sequence[str]) -> bool:
    """Whether a file lies in one of the folders."""
    plain = without_file_scheme(path)
    return any(plain.startswith(without_file_scheme(root) + "/") for root in roots)
