"""One version of an Iceberg table: its columns, snapshots and manifests. Immutable, so everything is cached by
location."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import BinaryType, DecimalType, FixedType, IcebergType, NestedField

from thermocline.core.lake_file import LakeFile
from thermocline.errors import LakeFileUnreadable
from thermocline.errors.maintenance import FormatVersionUnsupported, LakeTypeUnknown
from thermocline.lake.read.storage import LakeReader, absolute_path
from thermocline.runtime.memory.bounded_cache import BoundedCache

_READER = LakeReader()
FORMAT_VERSIONS = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeField:
    """A column of the lake table. `kind` is Iceberg's type name without its parameters."""

    name: str
    field_id: int
    kind: str
    precision: int = 0
    scale: int = 0
    missing: str | None = None
    """The value of rows in files that were written before the column existed, in Postgres' text form; None is NULL."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotFile(LakeFile):
    """A data or delete file as its manifest describes it; bounds stay encoded until they are compared."""

    lower: dict[int, bytes]
    upper: dict[int, bytes]
    null_counts: dict[int, int]
    partition: tuple[object, ...] = ()
    """Spec id and partition values; `()` when the spec has no fields, so that the file belongs to every partition."""
    equality_ids: tuple[int, ...] = ()
    """The columns an equality delete compares, sorted; none for other files."""

    @property
    def is_equality_delete(self) -> bool:
        return bool(self.equality_ids)


@dataclass(frozen=True, kw_only=True, eq=False)
class SnapshotFiles:
    """All live files of one snapshot."""

    snapshot_id: int
    data: tuple[SnapshotFile, ...]
    deletes: tuple[SnapshotFile, ...]

    @cached_property
    def data_bytes(self) -> int:
        """The size of all data files."""
        return sum(file.size_bytes for file in self.data)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LakeTable:
    """One metadata file."""

    location: str
    uuid: str
    fields: tuple[LakeField, ...]
    snapshot_ids: frozenset[int]
    metadata: TableMetadata

    @property
    def size_bytes(self) -> int:
        """What this version takes in memory, about."""
        return _TABLE_BYTES + _FIELD_BYTES * len(self.fields) + _SNAPSHOT_BYTES * len(self.snapshot_ids)

    def field(self, name: str) -> LakeField | None:
        return next((field for field in self.fields if field.name == name), None)

    def has_snapshot(self, snapshot_id: int) -> bool:
        return snapshot_id in self.snapshot_ids

    def files(self, snapshot_id: int) -> SnapshotFiles:
        """Every live file of a snapshot of this version."""
        return _read_snapshot_files(self.location, snapshot_id)


_TABLE_BYTES, _FIELD_BYTES, _SNAPSHOT_BYTES = 20_000, 2_000, 5_000
_FILE_BYTES, _BOUND_BYTES = 1_000, 150
_TABLES: BoundedCache[str, LakeTable] = BoundedCache(max_bytes=256 << 20, keeps_large=True)
_FILES: BoundedCache[tuple[str, int], SnapshotFiles] = BoundedCache(max_bytes=256 << 20, keeps_large=True)
_MANIFESTS: BoundedCache[str, tuple[SnapshotFile, ...]] = BoundedCache(max_bytes=512 << 20, keeps_large=True)


def forget_cached_tables() -> None:
    """Read every table from its files again."""
    for cache in (_TABLES, _FILES, _MANIFESTS):
        cache.clear()


def read_lake_table(location: str) -> LakeTable:
    """The table version at a metadata location, which never changes."""
    table = _TABLES.read(location)
    if table is None:
        table = _read_lake_table(location)
        _TABLES.put(location, table, table.size_bytes)
    return table


def _read_lake_table(location: str) -> LakeTable:
    try:
        metadata = FromInputFile.table_metadata(_READER.new_input(location))
    except LakeFileUnreadable:
        raise
    except Exception as problem:
        _check_known(location)
        raise LakeFileUnreadable(f"Lake metadata {location} cannot be read: {problem}") from problem
    return LakeTable(
        location=location,
        uuid=str(metadata.table_uuid),
        fields=tuple(
            _field(field, metadata.properties.get(missing_property(field.field_id)))
            for field in metadata.schema().fields
        ),
        snapshot_ids=frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots),
        metadata=metadata,
    )


def _check_known(location: str) -> None:
    """Name the part of a table's metadata that this build does not support, if that is why it cannot be read."""
    try:
        with closing(_READER.new_input(location).open()) as source:
            metadata = json.loads(source.read())
    except (LakeFileUnreadable, ValueError):
        return
    if (version := metadata.get("format-version")) not in FORMAT_VERSIONS:
        raise FormatVersionUnsupported(
            f"Lake table {metadata.get('location')} is of format version {version}; versions 1 to 3 are known."
        )
    for schema in metadata.get("schemas", ()):
        for column in schema["fields"]:
            try:
                Schema.model_validate({"type": "struct", "fields": [column]})
            except Exception as problem:
                raise LakeTypeUnknown(
                    f"Column {column['name']} of lake table {metadata.get('location')} is {column['type']}."
                ) from problem


_MISSING = "thermocline.missing."


def missing_property(field_id: int) -> str:
    """The table property with the default of a field that a file lacks. Iceberg itself has such defaults from format
    version 3 on."""
    return f"{_MISSING}{field_id}"


def has_missing(properties: Mapping[str, str]) -> bool:
    """Whether some column has such a default: a program that does not know of it would rewrite it as NULL."""
    return any(key.startswith(_MISSING) for key in properties)


def _field(field: NestedField, missing: str | None) -> LakeField:
    kind, precision, scale = field.field_type, 0, 0
    if missing is None and field.initial_default is not None:
        missing = _default_text(field.initial_default, kind)
    if isinstance(kind, DecimalType):
        name, precision, scale = "decimal", kind.precision, kind.scale
    else:
        name = "binary" if isinstance(kind, FixedType) else str(kind)
    return LakeField(
        name=field.name, field_id=field.field_id, kind=name, precision=precision, scale=scale, missing=missing
    )


def _default_text(value: object, kind: IcebergType) -> str:
    """Iceberg's own default in Postgres' text form, as our defaults have it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(kind, BinaryType | FixedType):
        return f"\\x{value.hex() if isinstance(value, bytes) else value}"
    return str(value)


def _read_snapshot_files(location: str, snapshot_id: int) -> SnapshotFiles:
    known = _FILES.read((location, snapshot_id))
    if known is None:
        known = _list_snapshot_files(location, snapshot_id)
        files = (*known.data, *known.deletes)
        # Files of manifests that were evicted meanwhile are held by this alone.
        _FILES.put((location, snapshot_id), known, sum(map(_file_bytes, files)))
    return known


def _list_snapshot_files(location: str, snapshot_id: int) -> SnapshotFiles:
    snapshot = read_lake_table(location).metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise KeyError(snapshot_id)
    data: list[SnapshotFile] = []
    deletes: list[SnapshotFile] = []
    try:
        reader = LakeReader(read_lake_table(location).metadata.location)
        for manifest in snapshot.manifests(reader):
            wanted = deletes if manifest.content == ManifestContent.DELETES else data
            wanted += _read_manifest(manifest, reader)
    except LakeFileUnreadable:
        raise
    except Exception as problem:
        raise LakeFileUnreadable(f"Manifests of lake snapshot {snapshot_id} cannot be read: {problem}") from problem
    return SnapshotFiles(snapshot_id=snapshot_id, data=tuple(data), deletes=tuple(deletes))


def _read_manifest(manifest: ManifestFile, reader: LakeReader) -> tuple[SnapshotFile, ...]:
    path = absolute_path(manifest.manifest_path, reader.base)
    known = _MANIFESTS.read(path)
    if known is None:
        entries = manifest.fetch_manifest_entry(reader, discard_deleted=True)
        spec_id = manifest.partition_spec_id
        known = tuple(_lake_file(entry.data_file, entry.sequence_number or 0, spec_id) for entry in entries)
        _MANIFESTS.put(path, known, sum(map(_file_bytes, known)))
    return known


def _file_bytes(file: SnapshotFile) -> int:
    """What the entry of a file takes in memory, about."""
    return _FILE_BYTES + len(file.path) + _BOUND_BYTES * (len(file.lower) + len(file.upper) + len(file.null_counts))


def _lake_file(file: DataFile, sequence_number: int, spec_id: int) -> SnapshotFile:
    values = tuple(file.partition[at] for at in range(len(file.partition)))
    return SnapshotFile(
        path=file.file_path,
        record_count=file.record_count,
        size_bytes=file.file_size_in_bytes,
        sequence_number=sequence_number,
        lower=dict(file.lower_bounds or {}),
        upper=dict(file.upper_bounds or {}),
        null_counts=dict(file.null_value_counts or {}),
        partition=(spec_id, *values) if values else (),
        equality_ids=tuple(sorted(file.equality_ids or ())) if file.content == DataFileContent.EQUALITY_DELETES else (),
    )
