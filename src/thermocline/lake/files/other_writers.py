"""Metadata files in a table's folder that the catalog does not know: another program commits to the table through
another catalog.

A version knows itself and the versions in its log. A file that is newer, by number or by the store's clock, or that
follows a version outside of this history, was written by a program whose files cannot be distinguished from orphans.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.table.metadata import TableMetadata

from thermocline.core.lake_paths import base_name
from thermocline.core.maintenance.orphans import ListedFile
from thermocline.errors import LakeFileUnreadable
from thermocline.errors.maintenance import CommittedByOtherCatalog
from thermocline.lake.files.listing import list_folder
from thermocline.lake.read.metadata_file import read_metadata_file
from thermocline.lake.read.newer_metadata import version_of

METADATA_ENDINGS = (".metadata.json", ".metadata.json.gz")
_CLOCKS_DIFFER_MS = 24 * 3_600_000
"""How far the clocks of two writers may differ."""


def metadata_folders(metadata: TableMetadata, head_location: str) -> tuple[str, ...]:
    """The folders of the table's metadata files: that of the newest one, and the one in its location."""
    return tuple(dict.fromkeys((head_location.rpartition("/")[0], f"{metadata.location.rstrip('/')}/metadata")))


def find_other_writer(metadata: TableMetadata, head_location: str) -> str | None:
    """A metadata file of the table that is newer than its head or outside its history; None when there is none."""
    head = base_name(head_location)
    log = [base_name(entry.metadata_file) for entry in metadata.metadata_log]
    known, oldest = {head, *log}, min((number_of(name) for name in (head, *log)), default=0)
    files = [file for folder in metadata_folders(metadata, head_location) for file in list_folder(folder)]
    written = max((file.modified for file in files if base_name(file.path) == head and file.modified), default=None)
    for file in (file for file in files if file.path.endswith(METADATA_ENDINGS) and base_name(file.path) not in known):
        number = number_of(base_name(file.path))
        if number > number_of(head) >= 0:
            return file.path
        is_newer = written is not None and file.modified is not None and file.modified > written
        if not is_newer and number < oldest:
            continue
        if (version := _read_version(file, metadata)) is None:
            continue
        followed = [base_name(entry.get("metadata-file", "")) for entry in version.get("metadata-log") or ()][-1:]
        if number >= oldest and (is_newer or any(name not in known and number_of(name) >= oldest for name in followed)):
            return file.path
        # A writer that continues from an earlier version uses numbers that have left our log. In a copied folder the
        # store's times mean nothing; our own old versions are recognised by the time in their content.
        if number < oldest and version.get("last-updated-ms", 0) > metadata.last_updated_ms - _CLOCKS_DIFFER_MS:
            return file.path
    return None


def another_owner(table: str, found: str, head: str) -> CommittedByOtherCatalog:
    """The refusal to delete files of a table that has such a metadata file."""
    return CommittedByOtherCatalog(
        f"{table}: {found} is a version of the table that the catalog knows nothing of; the newest it knows is {head}. "
        "Another writer may own the table, so nothing was deleted."
    )


def number_of(name: str) -> int:
    """The version in a metadata file's name; -1 when it has none."""
    return -1 if (found := version_of(name)) is None else found


def _read_version(file: ListedFile, metadata: TableMetadata) -> dict[str, Any] | None:
    """The file's content, when it is a version of this table."""
    try:
        version = read_metadata_file(file.path)
    except (LakeFileUnreadable, OSError):
        return None
    return version if version.get("table-uuid") == str(metadata.table_uuid) else None
