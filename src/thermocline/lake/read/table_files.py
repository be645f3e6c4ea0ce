"""Read all live files of a snapshot for maintenance; each manifest is read once per pass.

Manifests are read with the fields of the newest format, so that deletion vectors of version 3 tables are included;
fields that an older format lacks are None. Bounds are kept only for the columns that equality deletes compare and by
which the table is sorted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from thermocline.core.lake_file import DeleteKind, Ends, LiveDataFile, LiveDeleteFile, Values
from thermocline.core.maintenance.files import LakeSnapshot, PartitionField
from thermocline.errors import LakeFileUnreadable
from thermocline.lake.read.storage import LakeReader
from thermocline.parquet.footer.dictionary_columns import open_with_dictionaries
from thermocline.runtime.file_io import open_location

PATH_FIELD_ID = 2_147_483_546
_FIELDS = {found.name: at for at, found in enumerate(DATA_FILE_TYPE[3].fields)}
_KEPT = (
    "content",
    "file_path",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "equality_ids",
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
_FIRST_ROW_ID = [found.name for found in MANIFEST_LIST_FILE_SCHEMAS[3].fields].index("first_row_id")
_KINDS: dict[int, DeleteKind] = {1: "position", 2: "equality"}
_INTEGERS = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType, BooleanType)
_TIMES, _TIME_BYTES = (TimestampType, TimestamptzType), 8
_BYTES = (StringType, UUIDType, BinaryType, FixedType)
_NAMES_BUDGET_BYTES = 64 << 20
"""The limit, in bytes, of position deletes of several files that are read for the data files they name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Entry:
    """One live manifest entry, with the metrics that are kept."""

    values: Mapping[str, Any]
    manifest: str
    sequence_number: int
    snapshot_id: int | None
    spec_id: int
    partition: Values
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]
    null_counts: Mapping[int, int]
    value_counts: Mapping[int, int]
    nan_counts: Mapping[int, int] | None


@dataclass(slots=True)
class TableFiles:
    """Reads snapshots of one table; caches manifests, which are immutable."""

    order_ids: frozenset[int] = frozenset()
    """Columns by which the table is sorted."""
    _manifests: dict[tuple[str, int | None], tuple[_Entry, ...]] = field(default_factory=dict)
    _reader: LakeReader = field(default_factory=LakeReader)
    _names: dict[str, Mapping[str, int] | None] = field(default_factory=dict)
    _compared: set[int] = field(default_factory=set)
    _spent: int = 0

    def read(self, metadata: TableMetadata, snapshot_id: int) -> LakeSnapshot:
        """Every live file of one snapshot."""
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise LakeFileUnreadable(f"Lake snapshot {snapshot_id} is not in the table's metadata.")
        self._reader = LakeReader(metadata.location)
        try:
            manifests = (
                _read_list(snapshot, self._reader) if metadata.format_version >= 3 else snapshot.manifests(self._reader)
            )
            of_deletes = [
                entry
                for found in manifests
                if found.content == ManifestContent.DELETES
                for entry in self._entries(found)
            ]
            self._compared |= {field_id for entry in of_deletes for field_id in entry.values["equality_ids"] or ()}
            of_data = [
                entry
                for found in manifests
                if found.content != ManifestContent.DELETES
                for entry in self._entries(found)
            ]
        except LakeFileUnreadable:
            raise
        except Exception as problem:
            raise LakeFileUnreadable(f"Manifests of lake snapshot {snapshot_id} cannot be read: {problem}") from problem
        types = _types(metadata)
        times = {found.snapshot_id: found.timestamp_ms for found in metadata.snapshots}
        ordered = sorted(range(len(of_data)), key=lambda at: (of_data[at].sequence_number, at))
        data = tuple(_data(of_data[at], order, times, types) for order, at in enumerate(ordered))
        return LakeSnapshot(
            snapshot_id=snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            format_version=metadata.format_version,
            data=data,
            deletes=tuple(self._delete(entry, types) for entry in of_deletes),
            specs=_specs(metadata),
            default_spec_id=metadata.default_spec_id,
            partition_texts=_texts(metadata, {file.group for file in data}),
        )

    def _entries(self, manifest: ManifestFile) -> tuple[_Entry, ...]:
        # A manifest from before an upgrade to version 3 gets its row ids with the first commit after it.
        key = manifest.manifest_path, _first_row_id(manifest)
        if (known := self._manifests.get(key)) is not None:
            return known
        wanted = self.order_ids | self._compared | {PATH_FIELD_ID}
        keep_all = manifest.content == ManifestContent.DELETES
        with AvroFile[ManifestEntry](
            self._reader.new_input(manifest.manifest_path), MANIFEST_ENTRY_SCHEMAS[3], read_types={-1: ManifestEntry}
        ) as entries:
            live = (entry for entry in entries if entry.status != ManifestEntryStatus.DELETED)
            found = tuple(
                _entry(entry, manifest, None if keep_all else wanted) for entry in _with_row_ids(live, key[1])
            )
        self._manifests[key] = found
        return found

    def _delete(self, entry: _Entry, types: Mapping[int, IcebergType]) -> LiveDeleteFile:
        values = entry.values
        is_vector = str(values["file_format"]).upper() == "PUFFIN"
        kind: DeleteKind = "vector" if is_vector else _KINDS[values["content"]]
        low, high = (_text(bounds.get(PATH_FIELD_ID)) for bounds in (entry.lower, entry.upper))
        referenced = values["referenced_data_file"] or (
            low if kind == "position" and low is not None and low == high else None
        )
        paths = self._read_names(entry) if kind == "position" and referenced is None else None
        equality_ids = tuple(sorted(values["equality_ids"] or ())) if kind == "equality" else ()
        return LiveDeleteFile(
            path=values["file_path"],
            kind=kind,
            size_bytes=values["file_size_in_bytes"],
            record_count=values["record_count"],
            sequence_number=entry.sequence_number,
            spec_id=entry.spec_id,
            partition=entry.partition,
            equality_ids=equality_ids,
            referenced_file=referenced,
            lowest_path=low,
            highest_path=high,
            paths=paths,
            offset=values["content_offset"] or 0,
            length=values["content_size_in_bytes"] or 0,
            format=str(values["file_format"]).lower(),
            manifest=entry.manifest,
            ends=_ends(entry, types, equality_ids),
            null_counts=entry.null_counts,
            value_counts=entry.value_counts,
        )

    def _read_names(self, entry: _Entry) -> Mapping[str, int] | None:
        """The data files that position deletes name, with counts; None where reading all of them would cost too
        much."""
        path, size = entry.values["file_path"], entry.values["file_size_in_bytes"]
        if path not in self._names:
            if self._spent + size > _NAMES_BUDGET_BYTES or str(entry.values["file_format"]).upper() != "PARQUET":
                return None
            self._spent += size
            self._names[path] = read_deleted_names(path)
        return self._names[path]


def _read_list(snapshot: Snapshot, reader: LakeReader) -> list[ManifestFile]:
    """A snapshot's manifests with their first row ids, which PyIceberg's own reader omits."""
    with AvroFile[ManifestFile](
        reader.new_input(snapshot.manifest_list),
        MANIFEST_LIST_FILE_SCHEMAS[3],
        read_types={-1: ManifestFile},
        read_enums={517: ManifestContent},
    ) as manifests:
        return list(manifests)


def _first_row_id(manifest: ManifestFile) -> int | None:
    known: int | None = manifest._data[_FIRST_ROW_ID] if len(manifest._data) > _FIRST_ROW_ID else None
    return known


def _with_row_ids(live: Iterable[ManifestEntry], first: int | None) -> Iterator[ManifestEntry]:
    """Entries with the first row id of their file. Files without one take theirs from the manifest's, consecutively."""
    at = _FIELDS["first_row_id"]
    for entry in live:
        values = entry.data_file._data
        if first is None:
            values[at] = None
        elif values[at] is None:
            values[at], first = first, first + values[_FIELDS["record_count"]]
        yield entry


def read_deleted_names(path: str) -> dict[str, int] | None:
    """None for a file that cannot be read: the code that applies it reports the error."""
    filesystem, inner = open_location(path)
    try:
        with filesystem.open_input_file(inner) as source:
            column = open_with_dictionaries(source, ["file_path"]).read(["file_path"], use_threads=False).column(0)
    except (pa.ArrowException, OSError):
        return None
    return {
        str(found["values"]): int(found["counts"]) for found in pc.value_counts(column.combine_chunks()).to_pylist()
    }


def _entry(entry: ManifestEntry, manifest: ManifestFile, wanted: frozenset[int] | None) -> _Entry:
    stored = entry.data_file._data
    kept = {name: stored[_FIELDS[name]] for name in _KEPT}
    partition = stored[_FIELDS["partition"]]
    inherited = manifest.sequence_number if entry.sequence_number is None else entry.sequence_number
    return _Entry(
        values=kept,
        manifest=manifest.manifest_path,
        sequence_number=inherited or 0,
        snapshot_id=entry.snapshot_id if entry.snapshot_id is not None else manifest.added_snapshot_id,
        spec_id=manifest.partition_spec_id,
        partition=tuple(_exact(partition[at]) for at in range(len(partition))),
        lower=_kept(stored[_FIELDS["lower_bounds"]], wanted),
        upper=_kept(stored[_FIELDS["upper_bounds"]], wanted),
        null_counts=_kept(stored[_FIELDS["null_value_counts"]], wanted),
        value_counts=_kept(stored[_FIELDS["value_counts"]], wanted),
        nan_counts=stored[_FIELDS["nan_value_counts"]],
    )


class _NegativeZero(float):
    """A partition value of -0.0, which Iceberg distinguishes from 0.0."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NegativeZero)

    def __hash__(self) -> int:
        return hash("-0.0")


def _exact(value: Any) -> Any:
    """A partition value that compares as in Iceberg: all NaN are equal, the two zeros are not."""
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return math.nan  # always this one object: tuples compare by identity first
    return _NegativeZero(value) if value == 0 and math.copysign(1, value) < 0 else value


def _kept(by_id: Mapping[int, Any] | None, wanted: frozenset[int] | None) -> dict[int, Any]:
    return {field_id: value for field_id, value in (by_id or {}).items() if wanted is None or field_id in wanted}


def _data(entry: _Entry, order: int, times: Mapping[int, int], types: Mapping[int, IcebergType]) -> LiveDataFile:
    values = entry.values
    return LiveDataFile(
        path=values["file_path"],
        size_bytes=values["file_size_in_bytes"],
        record_count=values["record_count"],
        sequence_number=entry.sequence_number,
        spec_id=entry.spec_id,
        partition=entry.partition,
        format=str(values["file_format"]).lower(),
        sort_order_id=values["sort_order_id"] or 0,
        added_ms=times.get(entry.snapshot_id) if entry.snapshot_id is not None else None,
        order=order,
        first_row_id=values["first_row_id"],
        manifest=entry.manifest,
        ends=_ends(entry, types, entry.lower),
        null_counts=entry.null_counts,
        value_counts=entry.value_counts,
        nan_counts=entry.nan_counts,
    )


def _ends(entry: _Entry, types: Mapping[int, IcebergType], field_ids: Iterable[int]) -> dict[int, Ends]:
    found = {}
    for field_id in field_ids:
        kind = types.get(field_id)
        low, high = (_value(kind, bounds.get(field_id)) for bounds in (entry.lower, entry.upper))
        if low is not None and high is not None:
            found[field_id] = (low, high)
    return found


def _value(kind: IcebergType | None, encoded: bytes | None) -> Any:
    """A bound that can be compared; None for floats, whose bounds exclude NaN, and for unreadable bytes.

    Integers are read at the width they were written in, so that files from before a widening compare with later ones.
    """
    if encoded is None or kind is None:
        return None
    if isinstance(kind, _TIMES) and len(encoded) < _TIME_BYTES:
        return None  # days, in a file from before the column became a timestamp
    if isinstance(kind, _INTEGERS):
        return int.from_bytes(encoded, "little", signed=True)
    if isinstance(kind, DecimalType):
        return Decimal(int.from_bytes(encoded, "big", signed=True)).scaleb(-kind.scale)
    return encoded if isinstance(kind, _BYTES) else None


def _text(encoded: bytes | None) -> str | None:
    return encoded.decode(errors="replace") if encoded is not None else None


def _types(metadata: TableMetadata) -> dict[int, IcebergType]:
    """The type of every column of any schema, the current schema's first."""
    types: dict[int, IcebergType] = {}
    for schema in (metadata.schema(), *metadata.schemas):
        for field_id in schema.field_ids:
            types.setdefault(field_id, schema.find_field(field_id).field_type)
    return types


def _specs(metadata: TableMetadata) -> dict[int, tuple[PartitionField, ...]]:
    return {
        spec.spec_id: tuple(
            PartitionField(name=part.name, source=_name_of(metadata, part.source_id), transform=str(part.transform))
            for part in spec.fields
        )
        for spec in metadata.partition_specs
    }


def _name_of(metadata: TableMetadata, field_id: int) -> str:
    for schema in (metadata.schema(), *metadata.schemas):
        if name := schema.find_column_name(field_id):
            return name
    return ""


def _texts(metadata: TableMetadata, groups: Iterable[tuple[int, Values]]) -> dict[tuple[int, Values], dict[str, str]]:
    """Partition values in readable form."""
    specs, types = {spec.spec_id: spec for spec in metadata.partition_specs}, _types(metadata)
    texts = {}
    for spec_id, values in groups:
        fields = specs[spec_id].fields
        texts[spec_id, values] = {
            part.name: part.transform.to_human_string(types.get(part.source_id, StringType()), value)
            for part, value in zip(fields, values, strict=False)
        }
    return texts
