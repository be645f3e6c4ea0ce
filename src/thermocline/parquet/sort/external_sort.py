"""Sort a bin of any size in bounded memory: sorted runs on local disk, merged range by range.

Rows are buffered until they fill a run; a run is sorted and written as Arrow. Keys sampled from the runs split all of
them into ranges of even size. Each range is read from every run, merged and yielded. The sort is stable, whatever the
sizes of runs and ranges. A bin that fits into one run is not written to disk.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from thermocline.parquet.sort.row_order import Direction, Order, row_order, row_words

ASIDE_SHARE, _RANGE_SHARE, _PIECES_SHARE = 0.12, 0.05, 0.1
_PIECE_BYTES = (32 << 10, 1 << 20)
_SAMPLES_PER_RUN = 512
Cuts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumns:
    """The sort columns, with their directions."""

    names: tuple[str, ...]
    directions: tuple[Direction, ...]

    def words(self, table: pa.Table) -> npt.NDArray[np.uint64]:
        """One word per row, comparable within this table."""
        return row_words(self.columns(table), self.directions)

    def order(self, table: pa.Table) -> Order | None:
        """The permutation that sorts the rows; None when they are sorted."""
        return row_order(self.columns(table), self.directions)

    def columns(self, table: pa.Table) -> list[pa.Array]:
        return [_one_array(table.column(name)) for name in self.names]


@dataclass(slots=True)
class _Run:
    """A sorted run on disk; `sample_rows` are the positions of its samples."""

    path: str
    sample_rows: npt.NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class SpillingSort(ABC):
    """Takes batches of one schema and yields them in order; rows that exceed the memory are spilled to local disk."""

    keys: KeyColumns
    memory_bytes: int
    scratch: str | None = None
    batch_bytes: int = 4 << 20
    """The approximate size of the batches that are yielded."""
    _buffer: list[pa.RecordBatch] = field(default_factory=list)
    _buffer_bytes: int = 0
    _total_bytes: int = 0
    _directory: str | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._buffer.append(batch)
        self._buffer_bytes += batch.nbytes
        self._total_bytes += batch.nbytes
        if self._buffer_bytes >= self.memory_bytes * ASIDE_SHARE:
            self._spill()

    @property
    @abstractmethod
    def runs(self) -> int:
        """How many times rows were spilled."""

    def sorted_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """All rows in order. The spilled files are deleted afterwards."""
        try:
            if not self.runs:
                if self._buffer:
                    yield from sort_batches(self._taken(), self.keys, self.batch_bytes)
                return
            if self._buffer:
                self._spill()
            yield from self._merge_spilled()
        finally:
            self.close()

    def close(self) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    @abstractmethod
    def _spill(self) -> None:
        """Write the buffered rows to disk."""

    @abstractmethod
    def _merge_spilled(self) -> Iterator[pa.RecordBatch]:
        """All spilled rows, in order."""

    def _taken(self) -> pa.Table:
        table = combine_chunks(pa.Table.from_batches(self._buffer))
        self._buffer, self._buffer_bytes = [], 0
        return table

    def _path_of(self, name: str) -> str:
        """The path of a file of this sort."""
        if self._directory is None:
            self._directory = tempfile.mkdtemp(prefix="thermocline-sort-", dir=self.scratch)
        return os.path.join(self._directory, name)


@dataclass(slots=True, kw_only=True)
class ExternalSort(SpillingSort):
    """Sorted runs, merged range by range."""

    expected_bytes: int = 0
    """The expected size of all rows. One piece of each run is in memory while ranges are merged, so many runs mean
    small pieces."""
    _runs: list[_Run] = field(default_factory=list)
    _samples: list[pa.Table] = field(default_factory=list)

    @property
    def _piece_bytes(self) -> float:
        runs = max(1.0, self.expected_bytes / (self.memory_bytes * ASIDE_SHARE))
        return min(_PIECE_BYTES[1], max(_PIECE_BYTES[0], self.memory_bytes * _PIECES_SHARE / runs))

    @property
    def runs(self) -> int:
        return len(self._runs)

    def _merge_spilled(self) -> Iterator[pa.RecordBatch]:
        for table in self._ranges():
            yield from sort_batches(table, self.keys, self.batch_bytes)

    def _spill(self) -> None:
        table = self._taken()
        order, path = self.keys.order(table), self._path_of(f"run-{len(self._runs)}.arrow")
        rows = max(1, int(self._piece_bytes / max(1.0, table.nbytes / table.num_rows)))
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            for begin in range(0, table.num_rows, rows):
                writer.write_table(
                    table.slice(begin, rows) if order is None else table.take(pa.array(order[begin : begin + rows]))
                )
        sample_rows = np.unique(np.linspace(0, table.num_rows - 1, _SAMPLES_PER_RUN).astype(np.int64))
        chosen = sample_rows if order is None else order[sample_rows]
        self._samples.append(table.select(self.keys.names).take(pa.array(chosen)))
        self._runs.append(_Run(path=path, sample_rows=sample_rows))
        del table
        pa.default_memory_pool().release_unused()

    def _ranges(self) -> Iterator[pa.Table]:
        """The rows of each range, the slices of all runs one after the other."""
        count = max(1, int(np.ceil(self._total_bytes / (self.memory_bytes * _RANGE_SHARE))))
        splitters = self._splitters(count)
        readers = [_RunReader(self, number, run, splitters) for number, run in enumerate(self._runs)]
        try:
            for number in range(len(splitters.runs) + 1):
                pieces = [piece for reader in readers for piece in reader.rows_of(number)]
                if pieces:
                    yield combine_chunks(pa.concat_tables(pieces))
        finally:
            for reader in readers:
                reader.close()

    def _splitters(self, count: int) -> _Splitters:
        """Keys that split all rows into this many ranges. Samples are ordered by run and row, which breaks ties."""
        samples = combine_chunks(pa.concat_tables(self._samples))
        runs = np.concatenate([np.full(len(run.sample_rows), number) for number, run in enumerate(self._runs)])
        rows = np.concatenate([run.sample_rows for run in self._runs])
        order = np.argsort(self.keys.words(samples), kind="stable")
        chosen = order[np.unique((np.arange(1, count) * len(order)) // count)]
        return _Splitters(keys=samples.take(pa.array(chosen)), runs=runs[chosen], rows=rows[chosen])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Splitters:
    keys: pa.Table
    runs: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


class _RunReader:
    """One run read sequentially, split by the splitters."""

    def __init__(self, sort: ExternalSort, number: int, run: _Run, splitters: _Splitters) -> None:
        self._keys = sort.keys
        self._number = number
        self._splitters = splitters
        self._source = pa.OSFile(run.path, "rb")
        self._batches = iter(pa.ipc.open_stream(self._source))
        self._piece: pa.Table | None = None
        self._first_row = 0
        self._cuts: Cuts = np.zeros(0, dtype=np.int64)

    def rows_of(self, number: int) -> Iterator[pa.Table]:
        """The run's rows of one range. Ranges must be requested in order."""
        while self._piece is not None or self._read():
            assert self._piece is not None
            begin = 0 if number == 0 else int(self._cuts[number - 1])
            end = self._piece.num_rows if number == len(self._cuts) else int(self._cuts[number])
            if end > begin:
                yield self._piece.slice(begin, end - begin)
            if end < self._piece.num_rows:
                return
            self._first_row += self._piece.num_rows
            self._piece = None

    def close(self) -> None:
        self._source.close()

    def _read(self) -> bool:
        batch = next(self._batches, None)
        if batch is None:
            return False
        self._piece = pa.Table.from_batches([batch])
        self._cuts = self._cut(self._piece)
        return True

    def _cut(self, piece: pa.Table) -> Cuts:
        """For each splitter, how many of the piece's rows precede it. Equal keys are ordered by run, then by
        position."""
        split, keys = self._splitters, piece.select(self._keys.names)
        ends = self._keys.words(
            combine_chunks(pa.concat_tables([keys.slice(0, 1), keys.slice(piece.num_rows - 1), split.keys]))
        )
        if not bool(np.any((ends[2:] >= ends[0]) & (ends[2:] <= ends[1]))):
            return np.where(ends[2:] > ends[1], piece.num_rows, 0).astype(np.int64)
        words = self._keys.words(combine_chunks(pa.concat_tables([keys, split.keys])))
        mine, theirs = words[: piece.num_rows], words[piece.num_rows :]
        left, right = np.searchsorted(mine, theirs, side="left"), np.searchsorted(mine, theirs, side="right")
        own = np.clip(split.rows - self._first_row, left, right)
        return np.where(split.runs > self._number, right, np.where(split.runs < self._number, left, own)).astype(
            np.int64
        )


def sort_batches(table: pa.Table, keys: KeyColumns, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """A table's rows in order, in batches of about this many bytes."""
    order = keys.order(table)
    rows = max(1, int(batch_bytes / max(1.0, table.nbytes / table.num_rows)))
    for begin in range(0, table.num_rows, rows):
        part = table.slice(begin, rows) if order is None else table.take(pa.array(order[begin : begin + rows]))
        yield from part.to_batches()


def combine_chunks(table: pa.Table) -> pa.Table:
    """The table with one chunk per column, also where its chunks have different dictionaries."""
    return table.unify_dictionaries().combine_chunks()


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )
