"""Write the outputs of a rewrite: row groups of bounded size, files cut at the target size, paths registered before
files are created."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from thermocline.errors import RewriteUnsupported
from thermocline.parquet.byte_files import Pace, Register
from thermocline.parquet.copy.splice import check_output, output_path
from thermocline.parquet.encode.lake_writer import not_written, open_location, statistics_columns
from thermocline.parquet.footer.float_metrics import FloatFacts
from thermocline.parquet.rewrite_task import BinTask, OutputFile
from thermocline.parquet.values.lake_schema import LakeSchema, LakeSchemaField
from thermocline.runtime.file_io import flush_written, make_folder

ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20
_FEWEST_GROUP_BYTES = 1 << 20
_TOO_LARGE = 1.6
_NEARLY_FULL = 0.8
"""A row group ends where its file is expected to be full, so that no tiny group follows."""
_DICTIONARY_SHARE = 0.2
_CACHED_PAGE_BYTES = 64 << 10
"""Pages that fit into a core's cache together with zstd's tables: at level 3 a tenth faster than pages of a megabyte,
and no larger."""
_CODECS = {"uncompressed": "none", "none": "none"}
_LEVELLED = frozenset(("zstd", "gzip", "brotli"))


def choose_dictionary_columns(sample: pa.Table) -> frozenset[str]:
    """The columns whose values repeat often enough in a sample of rows.

    A dictionary that overflows takes six times as long as none, and a quarter more space. NULL does not count:
    dictionaries do not contain it.
    """
    return frozenset(field.name for field in sample.schema if _dictionary_pays(sample.column(field.name)))


def _dictionary_pays(column: pa.ChunkedArray) -> bool:
    kind = column.type
    checks = (pa.types.is_string, pa.types.is_binary, pa.types.is_decimal, pa.types.is_integer, pa.types.is_date)
    values = len(column) - column.null_count
    if not any(check(kind) for check in checks) or not values:
        return False
    return bool(pc.count_distinct(column, mode="only_valid").as_py() <= max(1, int(values * _DICTIONARY_SHARE)))


class OutputWriter:
    """Writes batches of the table's schema; `finished` grows as files are closed."""

    def __init__(
        self,
        task: BinTask,
        lake: LakeSchema,
        schema: pa.Schema,
        dictionaries: frozenset[str],
        register: Register,
        pace: Pace,
    ) -> None:
        self.finished: list[OutputFile] = []
        self._task = task
        self._lake = lake
        self._schema = schema
        self._dictionaries = sorted(dictionaries) + [path for field in lake.fields for path in _nested_texts(field)]
        self._register = register
        self._pace = pace
        self._expected_bytes = sum(file.size_bytes for file in task.inputs)
        self._planned = max(1, round(self._expected_bytes / task.target_bytes))
        self._row_bytes = self._expected_bytes / max(1, sum(file.record_count for file in task.inputs))
        self._group_bytes = int(min(ROW_GROUP_BYTES, max(_FEWEST_GROUP_BYTES, 2 * self._full_bytes)))
        self._buffer: list[pa.RecordBatch] = []
        self._buffer_bytes = self._buffer_rows = 0
        self._rows = self._groups = self._written = 0
        self._floats = FloatFacts()
        self._path = self._inner = ""
        self._filesystem: pa.fs.FileSystem | None = None
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Add rows; returns the index of their output and the position of the first row in it."""
        position = (len(self.finished), self._rows + self._buffer_rows)
        if batch.num_rows:
            self._buffer.append(batch)
            self._buffer_bytes += batch.nbytes
            self._buffer_rows += batch.num_rows
        estimate = self._written + (self._buffer_rows + batch.num_rows / 2) * self._row_bytes
        is_full = not self._is_last and estimate >= self._full_bytes
        if is_full or self._buffer_bytes >= self._group_bytes or self._buffer_rows >= ROW_GROUP_ROWS:
            self._flush()
        return position

    def close(self) -> tuple[OutputFile, ...]:
        """Write buffered rows and finish the last file."""
        self._flush()
        if self._writer is not None:
            self._finish()
        return tuple(self.finished)

    def abandon(self) -> None:
        """Release the file after a failure. The paths stay registered, so that they are removed later."""
        if self._sink is not None:
            self._sink.close()

    def _flush(self) -> None:
        if not self._buffer_rows:
            return
        table = pa.Table.from_batches(self._buffer, self._schema).unify_dictionaries()
        writer, sink = self._opened()
        try:
            writer.write_table(table, row_group_size=table.num_rows)
            size = int(sink.tell())
        except pa.ArrowInvalid as problem:
            raise RewriteUnsupported(f"Rows cannot be written to {self._path}: {problem}.") from problem
        except OSError as problem:
            raise not_written(self._path, problem) from problem
        self._rows += table.num_rows
        self._groups += 1
        for field in self._lake.fields:
            _add_floats(self._floats, field, table.column(field.name))
        self._buffer, self._buffer_bytes, self._buffer_rows = [], 0, 0
        del table
        pa.default_memory_pool().release_unused()
        self._pace(0, size - self._written)
        self._written = size
        if size >= (_TOO_LARGE * self._task.target_bytes if self._is_last else _NEARLY_FULL * self._full_bytes):
            self._finish()

    @property
    def _is_last(self) -> bool:
        return len(self.finished) >= self._planned - 1

    @property
    def _full_bytes(self) -> float:
        """The size at which the current file is closed: an even share of the remaining bytes."""
        done = sum(output.size_bytes for output in self.finished)
        return max(self._expected_bytes - done, 0) / max(self._planned - len(self.finished), 1)

    def _opened(self) -> tuple[pq.ParquetWriter, pa.NativeFile]:
        if self._writer is not None and self._sink is not None:
            return self._writer, self._sink
        self._path = output_path(self._task, len(self.finished))
        filesystem, self._inner = open_location(self._path)
        self._filesystem = filesystem
        self._register(self._path)
        try:
            make_folder(filesystem, os.path.dirname(self._inner))
            sink = filesystem.open_output_stream(self._inner)
        except OSError as problem:
            raise not_written(self._path, problem) from problem
        codec = _CODECS.get(self._task.compression, self._task.compression)
        self._sink = sink
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression=codec,
            compression_level=self._task.compression_level if codec in _LEVELLED else None,
            use_dictionary=self._dictionaries or False,
            data_page_size=_CACHED_PAGE_BYTES if codec == "zstd" and self._task.compression_level > 1 else None,
            store_schema=False,
            store_decimal_as_integer=True,
            write_statistics=statistics_columns(self._schema),
            version="2.6",
            write_page_index=True,
        )
        self._writer.add_key_value_metadata({"iceberg.schema": self._lake.text})
        return self._writer, sink

    def _finish(self) -> None:
        assert self._writer is not None
        assert self._sink is not None
        try:
            self._writer.close()
            size = int(self._sink.tell())
            self._sink.close()
            flush_written(self._filesystem, self._inner)
        except OSError as problem:
            raise not_written(self._path, problem) from problem
        self._pace(0, size - self._written)
        output = check_output(self._path, self._rows, self._groups)
        self.finished.append(replace(output, nan_counts=dict(self._floats.nan_counts), float_ends=self._floats.ends))
        self._writer = self._sink = None
        self._rows = self._groups = self._written = 0
        self._floats = FloatFacts()


def _add_floats(facts: FloatFacts, field: LakeSchemaField, column: pa.ChunkedArray) -> None:
    """Add a float column, or the float fields of a struct. Iceberg has no counts and bounds inside lists and maps."""
    if pa.types.is_floating(field.kind):
        facts.add(field.field_id, column)
    elif pa.types.is_struct(field.kind):
        for child in field.children:
            _add_floats(facts, child, pc.struct_field(column, child.name))


def _nested_texts(field: LakeSchemaField, prefix: str = "") -> Iterator[str]:
    """The Parquet paths of text and binary inside lists, maps and structs, where dictionaries mostly pay off; they are
    not sampled."""
    path = f"{prefix}{field.name}"
    if not field.children:
        if prefix and (pa.types.is_string(field.kind) or pa.types.is_binary(field.kind)):
            yield path
        return
    below = "list." if pa.types.is_list(field.kind) else "key_value." if pa.types.is_map(field.kind) else ""
    for child in field.children:
        yield from _nested_texts(child, f"{path}.{below}")
