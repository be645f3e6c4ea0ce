"""The manifests of a snapshot, from its manifest list; no manifest is opened."""

from __future__ import annotations

from pyiceberg.manifest import ManifestContent, ManifestFile, read_manifest_list

from thermocline.core.maintenance.manifests import ManifestFact
from thermocline.errors import LakeFileUnreadable
from thermocline.lake.read.storage import LakeReader
from thermocline.lake.read.table_metadata import read_lake_table

_REWRITTEN_KEY = "entries-processed"
"""A summary key of snapshots that Iceberg made by rewriting manifests."""


def read_manifest_facts(metadata_location: str) -> tuple[ManifestFact, ...]:
    """The manifests of the current snapshot; empty when there is none."""
    metadata = read_lake_table(metadata_location).metadata
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return ()
    rewrites = {
        made.snapshot_id
        for made in metadata.snapshots
        if made.summary is not None and _REWRITTEN_KEY in made.summary.additional_properties
    }
    try:
        found = list(read_manifest_list(LakeReader().new_input(snapshot.manifest_list)))
    except LakeFileUnreadable:
        raise
    except Exception as problem:
        raise LakeFileUnreadable(f"Lake file {snapshot.manifest_list} cannot be read: {problem}.") from problem
    return tuple(_fact(manifest, rewrites) for manifest in found)


def _fact(manifest: ManifestFile, rewrites: set[int]) -> ManifestFact:
    return ManifestFact(
        path=manifest.manifest_path,
        spec_id=manifest.partition_spec_id,
        is_data=manifest.content != ManifestContent.DELETES,
        size_bytes=manifest.manifest_length,
        live_entries=(manifest.added_files_count or 0) + (manifest.existing_files_count or 0),
        written_by_rewrite=manifest.added_snapshot_id in rewrites,
    )
