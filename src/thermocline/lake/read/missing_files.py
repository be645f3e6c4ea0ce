"""Check that every file of a snapshot exists with the size in its manifest."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow.fs as fs

from thermocline.errors import LakeFileUnreadable
from thermocline.lake.read.reachable import ManifestIndex
from thermocline.lake.read.storage import LakeReader, absolute_path, readable_local_path
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.runtime.file_io import open_location
from thermocline.runtime.object_store import is_object_location

_ASKED_AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFile:
    """A file of a snapshot that is missing or has another size; `rows` for a data file."""

    path: str
    rows: int = 0


def find_missing(metadata_location: str, snapshot_id: int) -> tuple[MissingFile, ...]:
    """The missing files of a snapshot: its manifest list, its manifests, else its data and delete files."""
    table = read_lake_table(metadata_location)
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    base = table.metadata.location
    try:
        reached = ManifestIndex(LakeReader(base)).reach([snapshot])
    except LakeFileUnreadable:
        return (MissingFile(path=snapshot.manifest_list or f"the manifest list of snapshot {snapshot_id}"),)
    manifests = [absolute_path(path, base) for path in reached.manifests]
    if gone := [path for path, size in zip(manifests, read_sizes(manifests), strict=True) if size is None]:
        return tuple(MissingFile(path=path) for path in gone)
    files = table.files(snapshot_id)
    data = [(absolute_path(file.path, base), file.size_bytes, file.record_count) for file in files.data]
    named = data + [(absolute_path(file.path, base), file.size_bytes, 0) for file in files.deletes]
    sizes = read_sizes([path for path, _, _ in named])
    return tuple(
        MissingFile(path=path, rows=rows)
        for (path, size, rows), found in zip(named, sizes, strict=True)
        if found != size
    )


def read_sizes(locations: Sequence[str]) -> tuple[int | None, ...]:
    """The size of each file; None for a missing one."""
    sizes: list[int | None] = []
    for is_object, group in groupby(locations, is_object_location):
        part = list(group)
        sizes += _stored_sizes(part) if is_object else map(_local_size, part)
    return tuple(sizes)


def _local_size(location: str) -> int | None:
    try:
        return os.stat(readable_local_path(location)).st_size
    except FileNotFoundError:
        return None


def _stored_sizes(locations: Sequence[str]) -> Iterable[int | None]:
    for start in range(0, len(locations), _ASKED_AT_ONCE):
        opened = [open_location(location) for location in locations[start : start + _ASKED_AT_ONCE]]
        for found in opened[0][0].get_file_info([path for _, path in opened]):
            yield found.size if found.type == fs.FileType.File else None
