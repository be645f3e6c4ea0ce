"""The Spark task of retention: position deletes for the rows below the retention line, in files that straddle it.

Only the tier key is read, and only from row groups that can hold a key below the line. Rows that are already deleted
are left out.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from thermocline.core.columns import LakeColumn
from thermocline.parquet.deletes.position_deletes import (
    DeleteTarget,
    PositionDeleteCache,
    WrittenDeletes,
    write_deletes,
)
from thermocline.parquet.values.arrow_types import arrow_type
from thermocline.parquet.values.key_index import Rows
from thermocline.parquet.values.partition_values import LakePartition, PartitionValue, partition_of_key
from thermocline.runtime.pg import connect
from thermocline.spark.kernels.copy_partition import COMPRESSION_LEVEL, registrar
from thermocline.spark.kernels.fold_range import CandidateFile
from thermocline.spark.kernels.tier_keys import read_tier_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireTask:
    """Files whose rows with low <= key < high are deleted. `directory` is the lake table's location."""

    dsn: str = field(repr=False)
    table_id: int
    op_id: str
    number: int
    files: tuple[CandidateFile, ...]
    tier_key: LakeColumn
    low: int
    high: int
    lake_partition: LakePartition | None
    directory: str
    compression_level: int = COMPRESSION_LEVEL


def expire_rows(task: ExpireTask, attempt: int) -> tuple[WrittenDeletes, ...]:
    """Write the deletes of one task, one file per lake partition. `attempt` is part of the file names, so that a retry
    has its own."""
    known = PositionDeleteCache()
    parts: dict[PartitionValue | None, dict[str, Rows]] = {}
    for file in task.files:
        rows = _rows_within(task, file)
        if len(rows):
            rows = np.setdiff1d(rows, known.of(file.path, file.deletes))
        if len(rows):
            # All rows of a file share one lake partition: that of its lowest key.
            partition = partition_of_key(task.lake_partition, file.lower_key, arrow_type(task.tier_key.lake_type))
            parts.setdefault(partition, {})[file.path] = rows
    target = DeleteTarget(
        directory=task.directory, stem=f"{task.op_id}-{task.number}-{attempt}", compression_level=task.compression_level
    )
    with closing(connect(task.dsn, autocommit=True, application_name="thermocline retain")) as journal:
        register = registrar(journal, task.table_id, task.op_id)
        return tuple(write_deletes(target, partition, positions, register) for partition, positions in parts.items())


def _rows_within(task: ExpireTask, file: CandidateFile) -> Rows:
    positions: list[Rows] = [np.zeros(0, dtype=np.int64)]
    for keys, first_row in read_tier_keys(file.path, task.tier_key.field_id, task.low, task.high):
        positions.append(np.flatnonzero((keys >= task.low) & (keys < task.high)) + first_row)
    return np.concatenate(positions)
