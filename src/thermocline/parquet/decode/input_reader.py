"""Read the rows of a bin's inputs in batches of bounded size."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.errors import LakeInputUnreadable, RewriteUnsupported
from thermocline.parquet.byte_files import Pace
from thermocline.parquet.decode.projection import Projection, plan_projection, with_mapped_ids
from thermocline.parquet.encode.lake_writer import open_location
from thermocline.parquet.footer.dictionary_columns import dictionary_columns
from thermocline.parquet.rewrite_errors import damaged, not_parquet
from thermocline.parquet.rewrite_task import BinTask, InputFile
from thermocline.parquet.values.lake_schema import LakeSchema

_BUFFER_BYTES = 1 << 20
_WHOLE_BYTES = 16 << 20
"""Column chunks of smaller files are read completely, of larger ones as a stream."""
_BATCH_BYTES = 16 << 20
BATCH_ROWS = 1 << 17
_FEWEST_ROWS = 512
_MAGIC = b"PAR1"


@contextmanager
def open_parquet(path: str, read_dictionary: Collection[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file for streaming; an error names the file. Columns in `read_dictionary` are read as dictionary
    arrays where the file allows."""
    filesystem, inner = open_location(path)
    with naming_file(path):
        source = filesystem.open_input_file(inner)
    try:
        with naming_file(path):
            size = source.size()
            if size < 12 or source.read_at(4, size - 4) != _MAGIC:
                raise not_parquet(path, bytes(source.read_at(min(8, size), 0)))
            metadata = pq.read_metadata(source)
            buffer = _BUFFER_BYTES if size > _WHOLE_BYTES else 0
            names = dictionary_columns(metadata, read_dictionary)
            file = pq.ParquetFile(
                source, metadata=metadata, pre_buffer=False, buffer_size=buffer, read_dictionary=names
            )
        yield file
    finally:
        source.close()


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Turn Arrow's errors into errors that name the file."""
    try:
        yield
    except pa.ArrowNotImplementedError as problem:
        raise RewriteUnsupported(f"Lake file {path} cannot be decoded: {problem}.") from problem
    except (pa.ArrowException, OSError, MemoryError, UnicodeDecodeError) as problem:
        raise damaged(path, getattr(problem, "strerror", None) or problem) from problem


def read_batches(
    file: pq.ParquetFile,
    path: str,
    columns: Sequence[str],
    row_bytes: float,
    pace: Pace,
    groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file, or of some row groups, with these columns. `row_bytes` is a known lower limit of a row's
    size."""
    metadata = file.metadata
    rows = _batch_rows(metadata, row_bytes)
    with naming_file(path):
        found = iter(file.iter_batches(batch_size=rows, row_groups=groups, columns=list(columns), use_threads=False))
    share = _compressed_bytes(metadata, frozenset(columns)) / max(1, metadata.num_rows)
    while True:
        with naming_file(path):
            batch = next(found, None)
        if batch is None:
            return
        pace(int(share * batch.num_rows), 0)
        yield batch


def _batch_rows(metadata: pq.FileMetaData, row_bytes: float) -> int:
    """How many rows may be decoded at once."""
    stated = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    width = max(row_bytes, stated / max(1, metadata.num_rows), 1.0)
    return int(min(BATCH_ROWS, max(_FEWEST_ROWS, _BATCH_BYTES / width)))


def _compressed_bytes(metadata: pq.FileMetaData, columns: frozenset[str]) -> int:
    """The compressed size of these columns. A name with a dot counts for the column of its first part."""
    tops = {name.split(".", 1)[0] for name in columns}
    wanted = [
        number for number in range(metadata.num_columns) if metadata.schema.column(number).path.split(".", 1)[0] in tops
    ]
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return sum(group.column(number).total_compressed_size for group in groups for number in wanted)


@dataclass(slots=True)
class InputReader:
    """Reads the inputs of one bin; plans the projection once per file schema."""

    task: BinTask
    lake: LakeSchema
    pace: Pace
    also: tuple[int, ...] = ()
    dictionaries: frozenset[str] = frozenset()
    """Text columns that are read, and kept in memory, as dictionary arrays."""
    repeating: frozenset[str] = frozenset()
    """Columns whose values repeat, so that outputs use dictionary encoding."""
    row_bytes: float = 1.0
    _schema: pa.Schema | None = None
    _parquet: pq.ParquetSchema | None = None
    _projection: Projection | None = None

    def read(self, file: InputFile) -> Iterator[tuple[Projection, pa.RecordBatch]]:
        """The file's batches as stored, each with the projection into the table's schema."""
        with self._open(file) as (opened, projection):
            for batch in read_batches(opened, file.path, projection.columns, self.row_bytes, self.pace):
                yield projection, batch

    def read_first(self, file: InputFile, rows: int) -> pa.RecordBatch | None:
        """The file's first rows in the table's schema, fewer when rows are wide; None when it has none."""
        with self._open(file) as (opened, projection):
            rows = min(rows, _batch_rows(opened.metadata, self.row_bytes))
            with naming_file(file.path):
                batch = next(
                    opened.iter_batches(batch_size=rows, columns=list(projection.columns), use_threads=False), None
                )
            if batch is None:
                return None
            self.pace(file.size_bytes * batch.num_rows // max(1, opened.metadata.num_rows), 0)
            return projection.apply(batch, frozenset())

    @contextmanager
    def _open(self, file: InputFile) -> Iterator[tuple[pq.ParquetFile, Projection]]:
        with open_parquet(file.path, self._wanted_dictionaries(file.path)) as opened:
            if file.record_count and opened.metadata.num_rows != file.record_count:
                raise LakeInputUnreadable(
                    f"Lake file {file.path} holds {opened.metadata.num_rows} rows, the table says {file.record_count}."
                )
            yield opened, self.projection_of(opened, file.path)

    def projection_of(self, opened: pq.ParquetFile, path: str) -> Projection:
        """The projection of this file's columns to the table's."""
        with naming_file(path):
            return self._plan(opened, path)

    def _wanted_dictionaries(self, path: str) -> list[str]:
        """The names, in the file, of columns that stay dictionary arrays; guessed from the file before."""
        if self._projection is None:
            return sorted(self.dictionaries)
        plan = self._projection
        return [
            plan.file_schema.field(c.source).name
            for c in plan.targets
            if c.source >= 0 and c.field.name in self.dictionaries
        ]

    def _plan(self, opened: pq.ParquetFile, path: str) -> Projection:
        schema = opened.schema_arrow
        same = self._schema is not None and self._parquet is not None and self._parquet.equals(opened.schema)
        if (
            same
            and self._projection is not None
            and self._schema is not None
            and self._schema.equals(schema, check_metadata=True)
        ):
            return self._projection
        _check_readable(opened, path)
        with_ids = with_mapped_ids(schema, self.task.name_mapping, path)
        self._projection = plan_projection(with_ids, self.lake, self.task.partition_values or {}, path, self.also)
        self._schema, self._parquet = schema, opened.schema
        return self._projection


def _check_readable(opened: pq.ParquetFile, path: str) -> None:
    for number in range(opened.metadata.num_columns):
        column = opened.schema.column(number)
        if column.physical_type == "INT96":
            raise RewriteUnsupported(f"Lake file {path}: column {column.path} is INT96, whose time zone is unknown.")
