"""Copy one heap partition into lake files: one Spark task per block range, one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from thermocline.errors import SparkTaskFailed
from thermocline.parquet.encode.lake_writer import WrittenFile
from thermocline.parquet.values.row_checksum import RowSum
from thermocline.spark.jobs.tasks import run_tasks
from thermocline.spark.kernels.copy_partition import CopyTask, copy_range

DEFAULT_RANGE_BYTES = 128 << 20
_BLOCK_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """All files of a partition, and the checksums of both sides. `heap == lake` must hold before the commit."""

    files: tuple[WrittenFile, ...]
    heap: RowSum
    lake: RowSum
    peak_bytes: int

    @property
    def is_exact(self) -> bool:
        return self.heap == self.lake == RowSum(rows=sum(file.rows for file in self.files), total=self.heap.total)


def plan_block_ranges(
    size_bytes: int, parallelism: int, range_bytes: int = DEFAULT_RANGE_BYTES, block_bytes: int = _BLOCK_BYTES
) -> tuple[tuple[int, int | None], ...]:
    """Block ranges that cover a partition: at least one for every core, none much larger than `range_bytes`.

    The last range is open-ended because the relation may have grown since its size was read. The snapshot decides which
    rows count.
    """
    blocks = -(-size_bytes // block_bytes)
    per_range = max(1, range_bytes // block_bytes)
    count = max(-(-blocks // per_range), min(parallelism, max(1, blocks // 512)), 1)
    edges = [blocks * number // count for number in range(count)]
    return tuple(zip(edges, [*edges[1:], None], strict=True))


def copy_partition(
    spark: SparkSession, tasks: Sequence[CopyTask], on_completed: Callable[[int], None] | None = None
) -> CopyResult:
    """Run the tasks and collect the results of their successful attempts."""
    if not tasks:
        return CopyResult(files=(), heap=RowSum(), lake=RowSum(), peak_bytes=0)
    ranges = run_tasks(spark, tasks, copy_range, f"Copying {tasks[0].partition}", on_completed)
    if sorted(done.number for done in ranges) != sorted(task.number for task in tasks):
        raise SparkTaskFailed(f"Copying {tasks[0].partition} gave the results of other tasks than were requested.")
    return CopyResult(
        files=tuple(file for done in ranges for file in done.files),
        heap=sum((done.heap for done in ranges), RowSum()),
        lake=sum((done.lake for done in ranges), RowSum()),
        peak_bytes=max(done.peak_bytes for done in ranges),
    )
