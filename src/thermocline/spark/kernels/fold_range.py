"""The Spark task of folding: write the corrections of one tier-key range as lake files, and their old images as
position deletes.

Corrections are read at an exported snapshot and written and checked as in tiering. The tier key is part of every key,
so the old image of a key is in a data file whose tier-key bounds contain it: only those files are read, of them only
the row groups that can hold a key, and of those only the key columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.parquet.deletes.position_deletes import (
    DeleteTarget,
    PositionDeleteCache,
    WrittenDeletes,
    write_deletes,
)
from thermocline.parquet.encode.lake_writer import FileTarget, LakeWriter, WrittenFile, open_location
from thermocline.parquet.values.arrow_types import arrow_schema, arrow_type, lake_array
from thermocline.parquet.values.key_index import KeyIndex, Rows, normalise_key_column
from thermocline.parquet.values.partition_values import (
    LakePartition,
    PartitionValue,
    check_supported,
    key_numbers,
    partition_of_key,
)
from thermocline.parquet.values.row_checksum import RowSum, sum_hashes
from thermocline.runtime.pg import Connection, connect
from thermocline.spark.kernels.copy_partition import (
    COMPRESSION_LEVEL,
    TARGET_FILE_BYTES,
    open_rows,
    read_peak_bytes,
    registrar,
)
from thermocline.spark.kernels.fold_key_equality import FoldKey, match_inexact_keys
from thermocline.spark.kernels.select_list import plan_delta_query


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFile:
    """A data file of the head that may hold old images: its path as in the manifest, its tier-key bounds, its delete
    files."""

    path: str
    lower_key: int
    upper_key: int
    deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTask:
    """One tier-key range of the delta. `condition` selects its rows; `key` is the primary key."""

    dsn: str = field(repr=False)
    table_id: int
    op_id: str
    number: int
    delta: TableName
    condition: sql.Composed
    snapshot_name: str
    columns: tuple[LakeColumn, ...]
    key: tuple[FoldKey, ...]
    tier_key: str
    lake_partition: LakePartition | None
    directory: str
    files: tuple[CandidateFile, ...]
    target_file_bytes: int = TARGET_FILE_BYTES
    compression_level: int = COMPRESSION_LEVEL

    @property
    def stem(self) -> str:
        return f"{self.op_id}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedRange:
    """The result of one attempt of a task: new images, deletes of old ones, and the versions that were read."""

    number: int
    files: tuple[WrittenFile, ...]
    deletes: tuple[WrittenDeletes, ...]
    heap: RowSum
    lake: RowSum
    versions: bytes
    files_read: int
    peak_bytes: int


@dataclass(slots=True)
class _Corrections:
    """The corrections that were read from the delta."""

    heap: RowSum
    keys: pa.Table
    versions: Rows


def fold_range(task: FoldTask, attempt: int) -> FoldedRange:
    """Fold one range. `attempt` is part of the file names, so that a retry has its own."""
    check_supported(task.lake_partition)
    with closing(connect(task.dsn, autocommit=True, application_name="thermocline fold")) as journal:
        register = registrar(journal, task.table_id, task.op_id)
        writer = LakeWriter(_file_target(task, attempt), register)
        try:
            taken = _read_corrections(task, writer)
            writer.close()
        finally:
            writer.abort()
        found = _old_images(task, taken.keys, journal)
        deletes = _write_deletes(task, attempt, found, register)
    return FoldedRange(
        number=task.number,
        files=tuple(writer.files),
        deletes=deletes,
        heap=taken.heap,
        lake=writer.checksum,
        versions=taken.versions.tobytes(),
        files_read=len(found),
        peak_bytes=read_peak_bytes(),
    )


def _read_corrections(task: FoldTask, writer: LakeWriter) -> _Corrections:
    """Read the corrections once: images go to the writer, keys and versions are kept."""
    heap, width = RowSum(), len(task.columns)
    schema = arrow_schema(task.columns)
    key_positions = [position for position, column in enumerate(task.columns) if column.required]
    key_schema = pa.schema([schema.field(position) for position in key_positions])
    keys: list[pa.RecordBatch] = []
    versions: list[Rows] = [np.zeros(0, dtype=np.int64)]
    with open_rows(task.dsn, task.snapshot_name, plan_delta_query(task.delta, task.columns, task.condition)) as batches:
        for batch in batches:
            is_image = pa.array(batch.column(width).to_numpy() == 0)
            versions.append(batch.column(width + 1).to_numpy().astype(np.int64))
            key_arrays = [lake_array(batch.column(position), task.columns[position]) for position in key_positions]
            keys.append(pa.RecordBatch.from_arrays(key_arrays, schema=key_schema))
            images = batch.filter(is_image)
            heap += sum_hashes(images.column(width + 2).to_numpy())
            arrays = [lake_array(images.column(position), column) for position, column in enumerate(task.columns)]
            writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return _Corrections(heap=heap, keys=pa.Table.from_batches(keys, key_schema), versions=np.concatenate(versions))


def _old_images(task: FoldTask, keys: pa.Table, conn: Connection) -> dict[CandidateFile, Rows]:
    """The positions of the keys' rows in the lake, by file, without rows that are already deleted."""
    if not keys.num_rows or not task.files:
        return {}
    wanted = np.sort(key_numbers(_one(keys.column(task.tier_key))))
    # The tier key first: files are clustered by it, so it excludes the most rows.
    exact = sorted((key.name for key in task.key if key.is_exact), key=lambda name: name != task.tier_key)
    index, known = KeyIndex(keys, exact), PositionDeleteCache()
    found: dict[CandidateFile, Rows] = {}
    for file in task.files:
        if not _contains_any(wanted, file.lower_key, file.upper_key):
            continue
        rows = _rows_in(task, file, keys, index, wanted, conn)
        if len(rows):
            rows = np.setdiff1d(rows, known.of(file.path, file.deletes))
        if len(rows):
            found[file] = rows
    return found


def _rows_in(
    task: FoldTask, file: CandidateFile, keys: pa.Table, index: KeyIndex, wanted: Rows, conn: Connection
) -> Rows:
    filesystem, path = open_location(file.path)
    columns = {column.name: column for column in task.columns if column.required}
    inexact = [key for key in task.key if not key.is_exact]
    positions: list[Rows] = [np.zeros(0, dtype=np.int64)]
    with filesystem.open_input_file(path) as source:
        parquet = pq.ParquetFile(source)
        names = _names_by_id(parquet)
        for group, first_row in _groups(parquet, names[columns[task.tier_key].field_id], wanted):

            def read(name: str, group: int = group) -> pa.Array:
                column = columns[name]
                found = parquet.read_row_group(group, columns=[names[column.field_id]], use_threads=False).column(0)
                return normalise_key_column(found).cast(_stored(column))

            rows, groups = index.find(read)
            if inexact and len(rows):
                rows = match_inexact_keys(conn, inexact, keys, index.groups, read, rows, groups)
            positions.append(rows + first_row)
    return np.concatenate(positions)


def _groups(parquet: pq.ParquetFile, tier_key: str, wanted: Rows) -> Iterator[tuple[int, int]]:
    """The row groups that can hold a wanted tier key, with the position of each one's first row."""
    first_row = 0
    at = parquet.schema_arrow.get_field_index(tier_key)
    for group in range(parquet.metadata.num_row_groups):
        metadata = parquet.metadata.row_group(group)
        ends = metadata.column(at).statistics
        if ends is None or not ends.has_min_max or _contains_any(wanted, int(ends.min_raw), int(ends.max_raw)):
            yield group, first_row
        first_row += metadata.num_rows


def _contains_any(wanted: Rows, low: int, high: int) -> bool:
    """Whether one of the sorted numbers is in [low, high]."""
    return bool(np.searchsorted(wanted, low, "left") < np.searchsorted(wanted, high, "right"))


def _names_by_id(parquet: pq.ParquetFile) -> dict[int, str]:
    """A file keeps the column names from when it was written; field ids do not change."""
    schema = parquet.schema_arrow
    return {int((column.metadata or {}).get(b"PARQUET:field_id", b"-1")): column.name for column in schema}


def _stored(column: LakeColumn) -> pa.DataType:
    wanted = arrow_type(column.lake_type)
    return wanted.storage_type if isinstance(wanted, pa.BaseExtensionType) else wanted


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _write_deletes(
    task: FoldTask, attempt: int, found: dict[CandidateFile, Rows], register: Callable[[str], None]
) -> tuple[WrittenDeletes, ...]:
    target = DeleteTarget(
        directory=task.directory, stem=f"{task.stem}-{attempt}", compression_level=task.compression_level
    )
    parts: dict[PartitionValue | None, dict[str, Rows]] = {}
    for file, rows in found.items():
        parts.setdefault(_partition_of(task, file), {})[file.path] = rows
    return tuple(write_deletes(target, partition, positions, register) for partition, positions in parts.items())


def _partition_of(task: FoldTask, file: CandidateFile) -> PartitionValue | None:
    """The lake partition of a file: that of its lowest key, because all its rows share it."""
    key_type = arrow_type(next(column.lake_type for column in task.columns if column.name == task.tier_key))
    return partition_of_key(task.lake_partition, file.lower_key, key_type)


def _file_target(task: FoldTask, attempt: int) -> FileTarget:
    return FileTarget(
        columns=task.columns,
        tier_key=task.tier_key,
        partition=task.lake_partition,
        directory=task.directory,
        stem=f"{task.stem}-{attempt}",
        target_file_bytes=task.target_file_bytes,
        compression_level=task.compression_level,
    )
