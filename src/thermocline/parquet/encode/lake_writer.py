"""Write Arrow batches as lake files: split by lake partition, sorted by tier key, bounded in memory, closed at the
target size.

Rows are buffered per lake partition. A buffer that is full, or the largest one when all buffers together exceed the
memory, is sorted by the tier key and written as one row group. A path is registered before its file is opened, so a
file that is never committed can be found and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from thermocline.core.columns import LakeColumn
from thermocline.core.types import lake_type_named
from thermocline.errors import LakeFileNotWritten
from thermocline.parquet.footer.file_metrics import group_offset
from thermocline.parquet.footer.float_metrics import FloatFacts
from thermocline.parquet.values.arrow_types import arrow_schema
from thermocline.parquet.values.partition_values import (
    LakePartition,
    PartitionValue,
    key_numbers,
    ordinals,
    partition_value,
)
from thermocline.parquet.values.row_checksum import RowSum, sum_table_rows
from thermocline.runtime.file_io import flush_written, make_folder
from thermocline.runtime.file_io import open_location as open_location

ROW_GROUP_BYTES = 48 << 20
ROW_GROUP_ROWS = 1 << 20
BUFFER_BYTES = 96 << 20
MAX_OPEN_FILES = 24
_SAMPLE_ROWS = 20_000
_DICTIONARY_SHARE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One finished file: what the commit needs to know of it."""

    path: str
    rows: int
    size_bytes: int
    partition: PartitionValue | None
    lower_key: int
    upper_key: int
    split_offsets: tuple[int, ...]
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    """NaN counts of float columns, by field id; footers do not have them."""
    float_ends: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Bounds of float columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """Where and how files are written. `directory` is the lake table's location; `stem` is unique to one attempt of one
    task."""

    columns: tuple[LakeColumn, ...]
    tier_key: str
    partition: LakePartition | None
    directory: str
    stem: str
    target_file_bytes: int
    compression_level: int
    row_group_bytes: int = ROW_GROUP_BYTES
    buffer_bytes: int = BUFFER_BYTES


@dataclass(slots=True)
class _OpenFile:
    path: str
    value: PartitionValue | None
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    dictionaries: list[str]
    rows: int = 0
    lower: int = 2**63 - 1
    upper: int = -(2**63)
    floats: FloatFacts = field(default_factory=FloatFacts)


@dataclass(slots=True)
class _Buffer:
    batches: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0
    rows: int = 0


class LakeWriter:
    """Writes batches in lake form; `files` and `checksum` grow as files are finished and read back."""

    def __init__(self, target: FileTarget, register: Callable[[str], None]) -> None:
        self.files: list[WrittenFile] = []
        self.checksum = RowSum()
        self._target = target
        self._register = register
        self._schema = arrow_schema(target.columns)
        self._statistics = statistics_columns(self._schema)
        self._key_type = self._schema.field(target.tier_key).type
        self._filesystem, self._root = open_location(target.directory)
        self._buffers: dict[int, _Buffer] = {}
        self._open: dict[int, _OpenFile] = {}
        self._count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the rows of one batch."""
        for ordinal, part in self._split(batch):
            buffer = self._buffers.setdefault(ordinal, _Buffer())
            buffer.batches.append(part)
            buffer.size_bytes += part.nbytes
            buffer.rows += part.num_rows
            if buffer.size_bytes >= self._target.row_group_bytes or buffer.rows >= ROW_GROUP_ROWS:
                self._flush(ordinal)
        while sum(buffer.size_bytes for buffer in self._buffers.values()) > self._target.buffer_bytes:
            self._flush(max(self._buffers, key=lambda ordinal: self._buffers[ordinal].size_bytes))

    def close(self) -> None:
        """Write all buffers and finish every file."""
        for ordinal in sorted(self._buffers):
            self._flush(ordinal)
        for ordinal in sorted(self._open):
            self._finish(ordinal)

    def abort(self) -> None:
        """Release open files after a failure; their paths stay registered."""
        for open_file in self._open.values():
            open_file.sink.close()
        self._open.clear()

    def _split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        if batch.num_rows == 0:
            return []
        if self._target.partition is None:
            return [(0, batch)]
        values = ordinals(self._target.partition, batch.column(self._target.tier_key))
        low, high = int(values.min()), int(values.max())
        if low == high:
            return [(low, batch)]
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        edges = np.flatnonzero(np.diff(ordered)) + 1
        # Copied by take, not sliced: a slice would keep the whole batch alive in a small buffer.
        return [(int(values[rows[0]]), batch.take(pa.array(rows))) for rows in np.split(order, edges)]

    def _flush(self, ordinal: int) -> None:
        buffer = self._buffers.pop(ordinal)
        table = _sorted(pa.Table.from_batches(buffer.batches, self._schema), self._target.tier_key)
        buffer.batches.clear()
        target = self._opened(ordinal, table)
        keys = _ends(table.column(self._target.tier_key))
        try:
            target.writer.write_table(table, row_group_size=max(table.num_rows, 1))
            size = target.sink.tell()
        except OSError as problem:
            raise not_written(target.path, problem) from problem
        target.rows += table.num_rows
        target.lower, target.upper = min(target.lower, keys[0]), max(target.upper, keys[1])
        for column in self._target.columns:
            if lake_type_named(column.lake_type).is_float:
                target.floats.add(column.field_id, table.column(column.name))
        del table
        if size >= self._target.target_file_bytes:
            self._finish(ordinal)
        elif len(self._open) > MAX_OPEN_FILES:
            self._finish(next(iter(self._open)))

    def _opened(self, ordinal: int, sample: pa.Table) -> _OpenFile:
        if found := self._open.get(ordinal):
            return found
        value = partition_value(self._target.partition, ordinal, self._key_type) if self._target.partition else None
        folder = f"data/{value.path}" if value else "data"
        name = f"{folder}/{self._target.stem}-{self._count}.parquet"
        self._count += 1
        path = f"{self._target.directory.rstrip('/')}/{name}"
        self._register(path)
        dictionaries = [column.name for column in self._target.columns if _dictionary_pays(sample.column(column.name))]
        try:
            make_folder(self._filesystem, f"{self._root}/{folder}")
            sink = self._filesystem.open_output_stream(f"{self._root}/{name}")
        except OSError as problem:
            raise not_written(path, problem) from problem
        writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            compression_level=self._target.compression_level,
            use_dictionary=dictionaries or False,
            store_schema=False,
            store_decimal_as_integer=True,
            write_statistics=self._statistics,
            version="2.6",
        )
        self._open[ordinal] = _OpenFile(path=path, value=value, sink=sink, writer=writer, dictionaries=dictionaries)
        return self._open[ordinal]

    def _finish(self, ordinal: int) -> None:
        done = self._open.pop(ordinal)
        inner = self._root + done.path.removeprefix(self._target.directory.rstrip("/"))
        try:
            done.writer.close()
            done.sink.close()
            flush_written(self._filesystem, inner)
        except OSError as problem:
            raise not_written(done.path, problem) from problem
        size, offsets, checksum = self._read_back(inner, done.dictionaries)
        self.checksum += checksum
        self.files.append(
            WrittenFile(
                path=done.path,
                rows=done.rows,
                size_bytes=size,
                partition=done.value,
                lower_key=done.lower,
                upper_key=done.upper,
                split_offsets=offsets,
                nan_counts=dict(done.floats.nan_counts),
                float_ends=done.floats.ends,
            )
        )

    def _read_back(self, inner: str, dictionaries: list[str]) -> tuple[int, tuple[int, ...], RowSum]:
        texts = [name for name in dictionaries if pa.types.is_string(self._schema.field(name).type)]
        checksum = RowSum()
        with self._filesystem.open_input_file(inner) as source:
            size = source.size()
            file = pq.ParquetFile(source, read_dictionary=texts)
            for group in range(file.metadata.num_row_groups):
                checksum += sum_table_rows(file.read_row_group(group, use_threads=False), self._target.columns)
            offsets = tuple(
                group_offset(file.metadata.row_group(group)) for group in range(file.metadata.num_row_groups)
            )
        return size, offsets, checksum


def statistics_columns(schema: pa.Schema) -> bool | list[str]:
    """The columns that get statistics in a footer: all but uuids and floats.

    Parquet orders UUIDs by their bytes, Iceberg's Java library as two signed numbers: with a lowest and a highest value
    of one order, a reader of the other skips row groups that hold what it looks for (decision 0027). Of floats see
    `float_facts.py`.
    """
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    leaves = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    columns = [leaves.column(at) for at in range(len(leaves))]
    kept = [
        column.path
        for column in columns
        if column.logical_type.type not in ("UUID", "FLOAT16") and column.physical_type not in ("FLOAT", "DOUBLE")
    ]
    return kept if len(kept) < len(columns) else True


def _sorted(table: pa.Table, tier_key: str) -> pa.Table:
    keys = _keys(table.column(tier_key))
    if len(keys) < 2 or bool(np.all(keys[1:] >= keys[:-1])):
        return table
    return table.take(pa.array(np.argsort(keys, kind="stable")))


def _keys(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    parts = [key_numbers(chunk) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _ends(column: pa.ChunkedArray) -> tuple[int, int]:
    """The lowest and highest key of a sorted, non-empty column."""
    keys = _keys(column)
    return int(keys[0]), int(keys[-1])


def _dictionary_pays(column: pa.ChunkedArray) -> bool:
    """Whether values repeat often enough in the first rows. A dictionary that overflows costs time and saves
    nothing."""
    kind = column.type
    if not (
        pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind) or pa.types.is_integer(kind)
    ):
        return False
    sample = column.slice(0, _SAMPLE_ROWS)
    return bool(pc.count_distinct(sample, mode="all").as_py() <= max(1, int(len(sample) * _DICTIONARY_SHARE)))


def not_written(path: str, problem: OSError) -> LakeFileNotWritten:
    return LakeFileNotWritten(f"The lake file {path} could not be written: {problem.strerror or problem}.")
