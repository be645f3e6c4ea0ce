"""Flush the metadata that an Iceberg commit writes: manifests, manifest list, table metadata.

Iceberg's writers leave flushing to the operating system. A publish in Postgres, and the partitions dropped after it,
rest on these files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from thermocline.runtime.file_io import flush_path, is_flushing
from thermocline.runtime.locations import local_path

_MANIFEST_LIST = re.compile(r"snap-\d+-\d+-(?P<commit>.+)\.avro")
_METADATA = re.compile(r"(?P<version>\d+)-.*\.metadata\.json(\.gz)?")


def flush_manifests(manifest_list: str) -> int:
    """Flush a manifest list and the manifests of its commit, where they are on this machine; the number of files."""
    if (path := local_path(manifest_list)) is None or not is_flushing():
        return 0
    commit = _MANIFEST_LIST.fullmatch(path.name)
    names = [
        name
        for name in os.listdir(path.parent)
        if name == path.name or (commit is not None and name.startswith(f"{commit['commit']}-m"))
    ]
    return _flush_files(path.parent, names)


def flush_commit(manifest_list: str) -> int:
    """Flush the manifests of a commit, their list and the newest table metadata; the number of files."""
    if (path := local_path(manifest_list)) is None or not is_flushing():
        return 0
    versions = [
        (int(found["version"]), name)
        for name in os.listdir(path.parent)
        if (found := _METADATA.fullmatch(name)) is not None
    ]
    newest, _ = max(versions, default=(0, ""))
    return flush_manifests(manifest_list) + _flush_files(
        path.parent, [name for version, name in versions if version == newest]
    )


def _flush_files(folder: Path, names: Sequence[str]) -> int:
    for name in names:
        with suppress(FileNotFoundError):  # another process prunes unreferenced metadata files
            flush_path(folder / name)
    flush_path(folder)
    return len(names)
