"""Fold the delta into lake files and position deletes: one Spark task per tier-key range, one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from thermocline.errors import SparkTaskFailed
from thermocline.parquet.deletes.position_deletes import WrittenDeletes
from thermocline.parquet.encode.lake_writer import WrittenFile
from thermocline.parquet.values.row_checksum import RowSum
from thermocline.spark.jobs.tasks import run_tasks
from thermocline.spark.kernels.fold_range import FoldTask, fold_range


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldResult:
    """New row images, position deletes of old ones, the versions that were read, and the checksums of both sides."""

    files: tuple[WrittenFile, ...]
    deletes: tuple[WrittenDeletes, ...]
    heap: RowSum
    lake: RowSum
    versions: npt.NDArray[np.int64]
    files_read: int
    peak_bytes: int

    @property
    def paths(self) -> tuple[str, ...]:
        return (*(file.path for file in self.files), *(delete.path for delete in self.deletes))

    @property
    def version_runs(self) -> list[tuple[int, int]]:
        """The versions as runs of consecutive numbers, first and last included."""
        ordered = np.sort(self.versions)
        breaks = np.flatnonzero(np.diff(ordered) > 1)
        firsts = ordered[np.concatenate(([0], breaks + 1))] if len(ordered) else ordered
        lasts = ordered[np.concatenate((breaks, [len(ordered) - 1]))] if len(ordered) else ordered
        return list(zip(firsts.tolist(), lasts.tolist(), strict=True))

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files) + sum(delete.size_bytes for delete in self.deletes)

    @property
    def is_exact(self) -> bool:
        return self.heap == self.lake == RowSum(rows=sum(file.rows for file in self.files), total=self.heap.total)


def fold_delta(
    spark: SparkSession, tasks: Sequence[FoldTask], on_completed: Callable[[int], None] | None = None
) -> FoldResult:
    """Run the tasks and collect the results of their successful attempts."""
    ranges = run_tasks(spark, tasks, fold_range, f"Folding {tasks[0].delta}", on_completed)
    if sorted(done.number for done in ranges) != sorted(task.number for task in tasks):
        raise SparkTaskFailed(f"Folding {tasks[0].delta} gave the results of other tasks than were requested.")
    return FoldResult(
        files=tuple(file for done in ranges for file in done.files),
        deletes=tuple(file for done in ranges for file in done.deletes),
        heap=sum((done.heap for done in ranges), RowSum()),
        lake=sum((done.lake for done in ranges), RowSum()),
        versions=np.concatenate([np.frombuffer(done.versions, dtype=np.int64) for done in ranges]),
        files_read=sum(done.files_read for done in ranges),
        peak_bytes=max(done.peak_bytes for done in ranges),
    )
