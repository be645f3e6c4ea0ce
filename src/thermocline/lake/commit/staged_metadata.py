"""Remove the metadata file of a commit that lost the race; Iceberg's catalogs leave it behind.

The file is removed only when it can never become current: the metadata it was written on is no longer current, so its
compare-and-swap cannot succeed. The file is found by its content, and a file that the table names is never removed.
"""

from __future__ import annotations

import json
from collections.abc import Collection

import pyarrow.fs as fs

from thermocline.core.maintenance.orphans import ListedFile
from thermocline.errors.maintenance import PathSpellingsDiffer
from thermocline.lake.files.delete_files import delete_file
from thermocline.lake.files.deletion_check import NeededFiles
from thermocline.runtime.file_io import open_location

_SUFFIX = ".metadata.json"


def remove_staged_metadata(base_location: str, named: Collection[str], text: str) -> int:
    """Delete the file that holds exactly this metadata and was written to follow `base_location`; returns the number of
    files.

    Where the store refuses, the file stays for the orphan sweep; the race is lost either way.
    """
    try:
        return _remove(base_location, named, text)
    except (OSError, ValueError, PathSpellingsDiffer):
        return 0


def _remove(base_location: str, named: Collection[str], text: str) -> int:
    folder, _, base = base_location.rpartition("/")
    version = base.partition("-")[0]
    if not version.isdigit():
        return 0
    filesystem, inner = open_location(folder)
    wanted, removed = json.loads(text), 0
    needed = NeededFiles(folder, None)
    needed.need_paths(named)
    for found in filesystem.get_file_info(fs.FileSelector(inner, allow_not_found=True)):
        name, location = found.base_name, f"{folder}/{found.base_name}"
        if (
            not name.startswith(f"{int(version) + 1:05d}-")
            or not name.endswith(_SUFFIX)
            or needed.may_be_needed(location)
        ):
            continue
        with filesystem.open_input_file(found.path) as source:
            is_ours = json.loads(source.read()) == wanted
        if is_ours:
            for file in needed.judge([ListedFile(path=location, size_bytes=0, modified=None)]).deletable:
                delete_file(file)
                removed += 1
    return removed
