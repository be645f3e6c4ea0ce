"""Read the facts of a lake table's health from one version of its metadata and its manifests."""

from __future__ import annotations

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from thermocline.core.lake_file import LiveDataFile
from thermocline.core.maintenance.clustering import overlap_depth
from thermocline.core.maintenance.health import HealthFacts
from thermocline.core.op_stamp import OP_KEY
from thermocline.core.types import LAKE_TYPES, POSTGRES_TYPES
from thermocline.errors import LakeFileUnreadable
from thermocline.lake.read.storage import LakeReader
from thermocline.lake.read.table_metadata import SnapshotFile, read_lake_table

_INTEGER_KINDS = frozenset(kind for kind in POSTGRES_TYPES if LAKE_TYPES[kind].is_integral)
_BYTES_KINDS = frozenset(kind for kind in POSTGRES_TYPES if LAKE_TYPES[kind].is_bytes)
_MOST_FOREIGN = 5


def read_health_facts(location: str, *, key_column: str | None = None, published: int | None = None) -> HealthFacts:
    """Facts of one version. `key_column` is the column whose clustering is measured when the table has no sort order.
    `published` is S of a registered table: commits of other programs after it are named."""
    table = read_lake_table(location)
    metadata = table.metadata
    current = metadata.current_snapshot()
    times = [snapshot.timestamp_ms for snapshot in metadata.snapshots]
    compactions = [snapshot.timestamp_ms for snapshot in metadata.snapshots if _is_compaction(snapshot)]
    if current is None:
        return _facts_of_nothing(metadata)
    files = table.files(current.snapshot_id)
    column = _clustering_column(metadata, key_column)
    return HealthFacts(
        sizes_bytes=tuple(file.size_bytes for file in files.data),
        records=sum(file.record_count for file in files.data),
        delete_files=len(files.deletes),
        deleted_records=sum(file.record_count for file in files.deletes),
        snapshots=len(metadata.snapshots),
        manifests=len(_manifests(current)),
        oldest_snapshot_ms=min(times),
        newest_commit_ms=max(times),
        last_compaction_ms=max(compactions) if compactions else None,
        depth=None if column is None else overlap_depth([_ranged(file, *column) for file in files.data], [column[0]]),
        depth_column=None if column is None else column[2],
        foreign_commits=_foreign(metadata, published),
    )


def read_small_files(location: str, limit_bytes: int) -> frozenset[str] | None:
    """The small files of a version; None when it can no longer be read."""
    try:
        table = read_lake_table(location)
        current = table.metadata.current_snapshot_id
        if current is None:
            return frozenset()
        return frozenset(file.path for file in table.files(current).data if file.size_bytes < limit_bytes)
    except (LakeFileUnreadable, KeyError):
        return None


def _facts_of_nothing(metadata: TableMetadata) -> HealthFacts:
    return HealthFacts(
        sizes_bytes=(),
        records=0,
        delete_files=0,
        deleted_records=0,
        snapshots=len(metadata.snapshots),
        manifests=0,
        oldest_snapshot_ms=None,
        newest_commit_ms=None,
        last_compaction_ms=None,
        depth=None,
        depth_column=None,
    )


def _operation(snapshot: Snapshot) -> Operation | None:
    return snapshot.summary.operation if snapshot.summary is not None else None


def _is_compaction(snapshot: Snapshot) -> bool:
    """Whether data files were rewritten. A rewrite of manifests or delete files alone is a `replace` too."""
    summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    return _operation(snapshot) is Operation.REPLACE and int(summary.get("deleted-data-files", 0)) > 0


def _manifests(snapshot: Snapshot) -> list[ManifestFile]:
    try:
        return snapshot.manifests(LakeReader())
    except LakeFileUnreadable:
        raise
    except Exception as problem:
        raise LakeFileUnreadable(
            f"The manifest list of snapshot {snapshot.snapshot_id} cannot be read: {problem}"
        ) from problem


def _clustering_column(metadata: TableMetadata, key_column: str | None) -> tuple[int, str, str] | None:
    """Field id, type and name: the sort order's first column, else the given one, else the first partition source
    column."""
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    ids = [field.source_id for field in order.fields] if order is not None else []
    schema = metadata.schema()
    if key_column is not None:
        ids += [field.field_id for field in schema.fields if field.name == key_column]
    ids += [field.source_id for field in metadata.spec().fields]
    for field_id in ids:
        found = next((field for field in schema.fields if field.field_id == field_id), None)
        if found is not None and str(found.field_type) in _INTEGER_KINDS | _BYTES_KINDS:
            return field_id, str(found.field_type), found.name
    return None


def _ranged(file: SnapshotFile, field_id: int, kind: str, _name: str) -> LiveDataFile:
    low, high = (_decoded(bounds.get(field_id), kind) for bounds in (file.lower, file.upper))
    return LiveDataFile(
        path=file.path,
        size_bytes=file.size_bytes,
        record_count=file.record_count,
        sequence_number=file.sequence_number,
        ends={field_id: (low, high)},
    )


def _decoded(encoded: bytes | None, kind: str) -> int | bytes | None:
    if encoded is None or kind in _BYTES_KINDS:
        return encoded
    return int.from_bytes(encoded, "little", signed=True)


def _foreign(metadata: TableMetadata, published: int | None) -> tuple[str, ...]:
    """Snapshots between S and the head that are neither ours nor rewrites, newest first."""
    foreign: list[str] = []
    at = metadata.current_snapshot_id if published is not None else None
    while at is not None and at != published and len(foreign) < _MOST_FOREIGN:
        snapshot = metadata.snapshot_by_id(at)
        if snapshot is None:
            break
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        operation = _operation(snapshot)
        if OP_KEY not in summary and operation is not Operation.REPLACE:
            foreign.append(f"snapshot {at} ({operation.value if operation else 'unknown'})")
        at = snapshot.parent_snapshot_id
    return tuple(foreign)
