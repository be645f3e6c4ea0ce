"""Metadata files with a higher version than the catalog's pointer.

Iceberg numbers metadata files upwards. A file above the pointer was written by a commit that failed, by a writer that
is about to swap the pointer, or by commits that the catalog lost because its database was restored to an earlier state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as fs

from thermocline.runtime.file_io import open_location

_VERSIONED = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerMetadata:
    """One metadata file above the pointer."""

    version: int
    location: str


def version_of(metadata_location: str) -> int | None:
    """The version in a metadata file's name; None when its writer uses other names."""
    found = _VERSIONED.fullmatch(metadata_location.rpartition("/")[2])
    return int(found[1]) if found else None


def read_newer_metadata(head_location: str) -> tuple[NewerMetadata, ...]:
    """The metadata files above this one in its folder, newest first."""
    head = version_of(head_location)
    if head is None:
        return ()
    folder = head_location.rpartition("/")[0]
    filesystem, path = open_location(folder)
    names = [
        found.base_name
        for found in filesystem.get_file_info(fs.FileSelector(path, recursive=False, allow_not_found=True))
        if found.type == fs.FileType.File
    ]
    later = [
        NewerMetadata(version=number, location=f"{folder}/{name}")
        for name in names
        if (number := version_of(name) or 0) > head
    ]
    return tuple(sorted(later, key=lambda found: (-found.version, found.location)))


def snapshots_of(metadata: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """A metadata file's snapshots by id."""
    return {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}


def current_snapshot_of(metadata: Mapping[str, Any]) -> int | None:
    current = metadata.get("current-snapshot-id")
    return None if current in (None, -1) else current
