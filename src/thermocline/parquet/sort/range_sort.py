"""Sort a bin of any size in bounded memory, where a sample gave the distribution of its keys beforehand.

Rows are buffered until they fill a part of the memory; the part is partitioned by key ranges and written as Arrow to
local disk. Then each range is read from every part, sorted and yielded: each row is sorted once, among the rows of its
range. The sort is stable. A range that the sample underestimated, or that is a single key, is sorted in runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from thermocline.parquet.sort.external_sort import ASIDE_SHARE, ExternalSort, SpillingSort, combine_chunks, sort_batches
from thermocline.parquet.sort.key_ranges import KeyRanges

_RANGE_SHARE, _MOST_SHARE = 0.05, 0.1


def ranges_for(expected_bytes: int, memory_bytes: int) -> int:
    """The number of ranges for rows of about this size; one when they surely fit into memory."""
    return (
        1
        if 2 * expected_bytes <= memory_bytes * ASIDE_SHARE
        else int(np.ceil(expected_bytes / (memory_bytes * _RANGE_SHARE)))
    )


@dataclass(slots=True)
class _Part:
    """Rows on disk by range; `batches` has each range's batch index, -1 for none."""

    source: pa.NativeFile
    reader: pa.RecordBatchFileReader
    batches: npt.NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class RangeSort(SpillingSort):
    """Rows partitioned by ranges, each range sorted once."""

    ranges: KeyRanges
    _parts: list[_Part] = field(default_factory=list)
    _range_bytes: npt.NDArray[np.int64] = field(init=False)
    _runs: int = 0

    def __post_init__(self) -> None:
        self._range_bytes = np.zeros(len(self.ranges), dtype=np.int64)

    @property
    def runs(self) -> int:
        return len(self._parts) + self._runs

    def close(self) -> None:
        for part in self._parts:
            part.source.close()
        SpillingSort.close(self)

    def _merge_spilled(self) -> Iterator[pa.RecordBatch]:
        for number in range(len(self.ranges)):
            yield from self._sorted_range(number)

    def _spill(self) -> None:
        table = self._taken()
        numbers = self.ranges.numbers(self.keys.columns(table))
        ends = np.cumsum(np.bincount(numbers, minlength=len(self.ranges)))
        order = None if bool(np.all(numbers[1:] >= numbers[:-1])) else np.argsort(numbers, kind="stable")
        path = self._path_of(f"part-{len(self._parts)}.arrow")
        batches, begin, written = np.full(len(self.ranges), -1, dtype=np.int64), 0, 0
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            for number in np.flatnonzero(np.diff(ends, prepend=0)):
                end = int(ends[number])
                rows = table.slice(begin, end - begin) if order is None else table.take(pa.array(order[begin:end]))
                writer.write_batch(rows.combine_chunks().to_batches()[0])
                self._range_bytes[number] += rows.nbytes
                batches[number], begin, written = written, end, written + 1
        source = pa.OSFile(path, "rb")
        self._parts.append(_Part(source=source, reader=pa.ipc.open_file(source), batches=batches))

    def _sorted_range(self, number: int) -> Iterator[pa.RecordBatch]:
        if self._range_bytes[number] > self.memory_bytes * _MOST_SHARE:
            yield from self._sorted_in_runs(number)
            return
        pieces = list(self._pieces(number))
        if pieces:
            table = combine_chunks(pa.Table.from_batches(pieces))
            del pieces
            yield from sort_batches(table, self.keys, self.batch_bytes)

    def _pieces(self, number: int) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            if part.batches[number] >= 0:
                yield part.reader.get_batch(int(part.batches[number]))

    def _sorted_in_runs(self, number: int) -> Iterator[pa.RecordBatch]:
        """While the outputs are written, less memory is available than before."""
        sort = ExternalSort(
            keys=self.keys,
            memory_bytes=self.memory_bytes // 2,
            scratch=self._directory,
            batch_bytes=self.batch_bytes,
            expected_bytes=int(self._range_bytes[number]),
        )
        try:
            for piece in self._pieces(number):
                sort.add(piece)
            yield from sort.sorted_batches()
        finally:
            self._runs += sort.runs
            sort.close()
