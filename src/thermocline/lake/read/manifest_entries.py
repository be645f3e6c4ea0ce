"""Every live data file of a snapshot with all metrics of its manifest entry, manifest by manifest."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)

from thermocline.core.manifest_entry import FileEntry
from thermocline.errors import LakeFileUnreadable
from thermocline.lake.read.storage import LakeReader
from thermocline.lake.read.table_metadata import LakeTable

_FIELDS = {found.name: at for at, found in enumerate(DATA_FILE_TYPE[3].fields)}


def read_file_entries(table: LakeTable, snapshot_id: int) -> Iterator[FileEntry]:
    """The data files of a snapshot. One manifest is in memory at a time."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise LakeFileUnreadable(f"Lake snapshot {snapshot_id} is not in the table's metadata.")
    reader = LakeReader(table.metadata.location)
    try:
        for manifest in snapshot.manifests(reader):
            if manifest.content != ManifestContent.DELETES:
                yield from _entries(manifest, reader)
    except LakeFileUnreadable:
        raise
    except Exception as problem:
        raise LakeFileUnreadable(f"Manifests of lake snapshot {snapshot_id} cannot be read: {problem}") from problem


def _entries(manifest: ManifestFile, reader: LakeReader) -> Iterator[FileEntry]:
    with AvroFile[ManifestEntry](
        reader.new_input(manifest.manifest_path), MANIFEST_ENTRY_SCHEMAS[3], read_types={-1: ManifestEntry}
    ) as entries:
        for entry in entries:
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            fields = {name: entry.data_file._data[at] for name, at in _FIELDS.items()}
            yield FileEntry(
                path=fields["file_path"],
                manifest=manifest.manifest_path,
                format=str(fields["file_format"]).lower(),
                rows=fields["record_count"],
                size_bytes=fields["file_size_in_bytes"],
                snapshot_id=(manifest.added_snapshot_id if entry.snapshot_id is None else entry.snapshot_id) or 0,
                split_offsets=tuple(fields["split_offsets"] or ()),
                value_counts=dict(fields["value_counts"] or {}),
                null_counts=dict(fields["null_value_counts"] or {}),
                nan_counts=dict(fields["nan_value_counts"] or {}),
                lower=dict(fields["lower_bounds"] or {}),
                upper=dict(fields["upper_bounds"] or {}),
            )
