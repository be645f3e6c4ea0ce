"""Read the tier keys of a lake file's rows, and nothing else of the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.parquet as pq

from thermocline.parquet.deletes.position_deletes import PositionDeleteCache
from thermocline.parquet.encode.lake_writer import open_location
from thermocline.parquet.values.key_index import Rows
from thermocline.parquet.values.partition_values import key_numbers
from thermocline.spark.kernels.fold_range import CandidateFile


def read_tier_keys(path: str, field_id: int, low: int, high: int) -> Iterator[tuple[Rows, int]]:
    """The keys of each row group that can hold one with low <= key < high, with the position of its first row."""
    filesystem, inner = open_location(path)
    first_row = 0
    with filesystem.open_input_file(inner) as source:
        parquet = pq.ParquetFile(source)
        name = _name_of(parquet, field_id)
        at = parquet.schema_arrow.get_field_index(name)
        for group in range(parquet.metadata.num_row_groups):
            metadata = parquet.metadata.row_group(group)
            ends = metadata.column(at).statistics
            if ends is None or not ends.has_min_max or (int(ends.min_raw) < high and int(ends.max_raw) >= low):
                column = parquet.read_row_group(group, columns=[name], use_threads=False).column(0).combine_chunks()
                yield key_numbers(column), first_row
            first_row += metadata.num_rows


def _name_of(parquet: pq.ParquetFile, field_id: int) -> str:
    """The name of a column in this file. A file keeps the names from when it was written; field ids do not change."""
    wanted = str(field_id).encode()
    return next(
        str(column.name)
        for column in parquet.schema_arrow
        if (column.metadata or {}).get(b"PARQUET:field_id") == wanted
    )


def find_key_outside(
    files: Sequence[CandidateFile], field_id: int, low: int, high: int, ranges: Sequence[tuple[int, int]]
) -> int | None:
    """A key with low <= key < high of a live row that is in none of the ranges; None when there is none. A file whose
    bounds are within one range is not opened."""
    known = PositionDeleteCache()
    for file in files:
        first, last = max(file.lower_key, low), min(file.upper_key, high - 1)
        if first > last or any(lo <= first and last < hi for lo, hi in ranges):
            continue
        gone = known.of(file.path, file.deletes)
        for keys, first_row in read_tier_keys(file.path, field_id, low, high):
            outside = (keys >= low) & (keys < high)
            outside[gone[(gone >= first_row) & (gone < first_row + len(keys))] - first_row] = False
            for lo, hi in ranges:
                outside &= (keys < lo) | (keys >= hi)
            if outside.any():
                return int(keys[np.flatnonzero(outside)[0]])
    return None
