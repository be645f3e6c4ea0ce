"""Sample a bin's sort columns before its rows are read: every n-th row from evenly spaced row groups.

Two threads read half of the sample each; no other work can start before it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa

from thermocline.parquet.byte_files import Pace
from thermocline.parquet.decode.input_reader import InputReader, open_parquet, read_batches
from thermocline.parquet.decode.projection import FieldPath
from thermocline.parquet.rewrite_task import BinTask, InputFile
from thermocline.parquet.values.lake_schema import LakeSchemaField

_SAMPLE_ROWS = 1 << 16
_FEWEST_GROUPS = 64
SortColumn = tuple[LakeSchemaField, FieldPath]


def read_sample(
    task: BinTask, field_paths: Sequence[SortColumn], reader: InputReader, pace: Pace, groups: int | None = None
) -> list[pa.RecordBatch]:
    """Rows in the table's schema with only the columns at these paths, from about this many row groups, or from all."""
    most = len(task.inputs) if groups is None else max(_FEWEST_GROUPS, groups)
    files = [task.inputs[number] for number in _evenly_spaced(len(task.inputs), most)]
    step = max(1, -(-sum(file.record_count for file in files) // _SAMPLE_ROWS))
    wanted = frozenset(field_path[0] for _, field_path in field_paths)
    of_file = None if groups is None else -(-most // len(files))

    def read_some(some: Sequence[InputFile]) -> list[pa.RecordBatch]:
        # A reader caches the projection of the last file, so each thread has its own reader.
        return list(_read_files(some, wanted, replace(reader), pace, of_file, step))

    half = -(-len(files) // 2)
    with ThreadPoolExecutor(2, thread_name_prefix="sample") as pool:
        return [batch for found in pool.map(read_some, (files[:half], files[half:])) for batch in found]


def _read_files(
    files: Sequence[InputFile], wanted: frozenset[int], reader: InputReader, pace: Pace, groups: int | None, step: int
) -> Iterator[pa.RecordBatch]:
    for file in files:
        with open_parquet(file.path) as opened:
            projection = reader.projection_of(opened, file.path)
            chosen = None if groups is None else _evenly_spaced(opened.metadata.num_row_groups, groups)
            for batch in read_batches(opened, file.path, projection.names_for(wanted), 1.0, pace, chosen):
                yield projection.apply_some(batch.take(pa.array(np.arange(0, batch.num_rows, step))), wanted)


def _evenly_spaced(count: int, most: int) -> list[int]:
    """This many numbers below `count`, evenly spaced; all of them when there are no more."""
    return list(range(count)) if count <= most else np.unique(np.linspace(0, count - 1, most).astype(np.int64)).tolist()
