"""Correct manifest entries: write manifests again with the same files, and replace the old ones on exactly the head
that was read.

Each file keeps its age: the snapshot that added it, its sequence numbers and the ids of its rows. No row and no file
changes, only the metadata about files.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from thermocline.errors import LostRace
from thermocline.lake.commit.compare_and_swap import LakeHead, OpStamp, commit_snapshot, find_op
from thermocline.lake.commit.java_metrics import java_metrics
from thermocline.lake.commit.java_values import java_class, list_of_longs
from thermocline.lake.commit.rewrite_files import carried_summary
from thermocline.spark.kernels.verify_entry import CorrectEntry


def repair_manifests(
    head: LakeHead, right: Mapping[str, Sequence[CorrectEntry]], added_by: Mapping[str, int], stamp: OpStamp
) -> int:
    """Write these manifests again with corrected entries; returns the new snapshot. `added_by` is the snapshot that
    added each file.

    Raises `LostRace` for manifests that are no longer part of the head: the caller looks for wrong entries again.
    """
    if (done := find_op(head, stamp.op_id)) is not None:
        return done
    old = _manifests(head, right.keys())
    if old.keys() != right.keys():
        raise LostRace(f"The manifests of {head.name} were rewritten meanwhile.")
    update = head.table.rewriteManifests()
    for path, manifest in old.items():
        update.deleteManifest(manifest)
        update.addManifest(_write(head, manifest, {entry.path: entry for entry in right[path]}, added_by))
    for key, value in (carried_summary(head) | stamp.summary()).items():
        update.set(key, value)
    return commit_snapshot(head, update, stamp.op_id)


def _manifests(head: LakeHead, paths: Any) -> dict[str, Any]:
    found = head.table.snapshot(head.snapshot_id).dataManifests(head.table.io())
    return {path: found.get(at) for at in range(found.size()) if (path := str(found.get(at).path())) in paths}


def _write(head: LakeHead, manifest: Any, right: Mapping[str, CorrectEntry], added_by: Mapping[str, int]) -> Any:
    """Write a manifest next to the table's others, named as Iceberg does; one that no snapshot names is an orphan."""
    jvm: Any = head.spark._jvm
    files, io, specs = java_class(jvm, "org.apache.iceberg.ManifestFiles"), head.table.io(), head.table.specs()
    spec = specs.get(manifest.partitionSpecId())
    path = head.table.operations().metadataFileLocation(f"{uuid.uuid4()}-m0.avro")
    writer = files.write(head.metadata.get("format-version", 1), spec, io.newOutputFile(path), None)
    entries = files.read(manifest, io, specs)
    try:
        found = entries.iterator()
        while found.hasNext():
            file = found.next()
            location, sequence, own = str(file.location()), file.dataSequenceNumber(), file.fileSequenceNumber()
            put = _put_right(head, spec, file, right[location]) if location in right else file
            writer.existing(put, added_by[location], sequence or 0, own)
    finally:
        entries.close()
        writer.close()
    return writer.toManifestFile()


def _put_right(head: LakeHead, spec: Any, file: Any, right: CorrectEntry) -> Any:
    jvm: Any = head.spark._jvm
    builder = java_class(jvm, "org.apache.iceberg.DataFiles").builder(spec).copy(file)
    builder = builder.withMetrics(java_metrics(jvm, right.metrics)).withFileSizeInBytes(right.size_bytes)
    builder = builder.withSplitOffsets(list_of_longs(jvm, right.split_offsets))
    if (first := file.firstRowId()) is not None:
        builder = builder.withFirstRowId(java_class(jvm, "java.lang.Long").valueOf(str(first)))
    return builder.build()
