"""Tiering over an adopted lake: what it holds of a partition already is compared, and only what differs is
replaced.

Below `lake_until` the lake may hold rows of partitions that the heap still has, as they were when the table was
unregistered. They are hidden, for they lie at or above T. Before T passes a range, the lake must hold exactly the
heap's rows of it: a partition whose sums agree on both sides stays as it is; of everything else the lake's rows go, in
the commit that brings the heap's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thermocline.catalog.tables import RegisteredTable
from thermocline.core.observation import PartitionObservation
from thermocline.lake.commit.compare_and_swap import LakeHead
from thermocline.ops.data_files import read_files
from thermocline.parquet.deletes.position_deletes import WrittenDeletes
from thermocline.parquet.values.row_checksum import RowSum
from thermocline.seam.heap.exported_snapshot import ExportedSnapshot
from thermocline.spark.jobs.copy import CopyResult, plan_block_ranges
from thermocline.spark.jobs.expire import delete_rows
from thermocline.spark.jobs.tasks import run_tasks
from thermocline.spark.kernels.checksum_ranges import HeapChecksumTask, LakeChecksumTask, checksum_rows
from thermocline.spark.kernels.expire_rows import ExpireTask
from thermocline.spark.kernels.fold_range import CandidateFile
from thermocline.spark.kernels.verify_rows import LakeShape

_DELETES_FROM = 90_000_000  # task numbers of the deletes, beyond those of any partition's copy


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRows:
    """What leaves the lake in the commit: whole files, and rows of others by position."""

    remove: tuple[str, ...] = ()
    deletes: tuple[WrittenDeletes, ...] = ()

    @property
    def is_nothing(self) -> bool:
        return not self.remove and not self.deletes


def is_adopting(registered: RegisteredTable, t: int) -> bool:
    """Whether the lake may hold rows at or above T."""
    return registered.lake_until is not None and t < registered.lake_until


def find_equal_partitions(
    head: LakeHead,
    dsn: str,
    registered: RegisteredTable,
    partitions: Sequence[PartitionObservation],
    snapshot: ExportedSnapshot,
) -> dict[int, CopyResult]:
    """The partitions of which the lake holds exactly the heap's rows, by their number."""
    files = read_files(head, _tier_key_id(registered))
    found = {}
    for partition in partitions:
        heap, lake = _sums(head, dsn, registered, partition, files, snapshot)
        if heap == lake:
            found[partition.oid] = CopyResult(files=(), heap=heap, lake=RowSum(), peak_bytes=0)
    return found


def _sums(
    head: LakeHead,
    dsn: str,
    registered: RegisteredTable,
    partition: PartitionObservation,
    files: Sequence[CandidateFile],
    snapshot: ExportedSnapshot,
) -> tuple[RowSum, RowSum]:
    shape = LakeShape(columns=registered.columns, key=registered.pk, tier_key=registered.tier_key)
    tasks: list[HeapChecksumTask | LakeChecksumTask] = [
        HeapChecksumTask(
            dsn=dsn,
            partition=partition.name,
            snapshot_name=snapshot.name,
            lo_block=lo,
            hi_block=hi,
            columns=registered.columns,
        )
        for lo, hi in plan_block_ranges(snapshot.sizes[partition.name], head.spark.sparkContext.defaultParallelism)
    ]
    tasks += [
        LakeChecksumTask(file=file, shape=shape, low=partition.lo, high=partition.hi)
        for file in files
        if file.lower_key < partition.hi and file.upper_key >= partition.lo
    ]
    sums = run_tasks(head.spark, tasks, checksum_rows, f"Comparing {partition.name} with the lake")
    return (
        sum((rows for is_heap, rows in sums if is_heap), RowSum()),
        sum((rows for is_heap, rows in sums if not is_heap), RowSum()),
    )


def write_removals(
    head: LakeHead,
    dsn: str,
    registered: RegisteredTable,
    op_id: str,
    lines: tuple[int, int],
    held: Sequence[PartitionObservation],
) -> RemovedRows:
    """Take everything out of the lake from the old T to the new one that does not belong to a partition it holds
    exactly."""
    files = read_files(head, _tier_key_id(registered))
    remove: dict[str, None] = {}
    deletes: list[WrittenDeletes] = []
    for number, (low, high) in enumerate(_between(*lines, held)):
        whole = [file for file in files if low <= file.lower_key and file.upper_key < high]
        across = [file for file in files if file not in whole and file.lower_key < high and file.upper_key >= low]
        remove |= dict.fromkeys(file.path for file in whole)
        deletes += delete_rows(
            head.spark,
            ExpireTask(
                dsn=dsn,
                table_id=registered.id,
                op_id=op_id,
                number=_DELETES_FROM + number * 1000,
                files=tuple(across),
                tier_key=next(column for column in registered.columns if column.name == registered.tier_key),
                low=low,
                high=high,
                lake_partition=head.partition,
                directory=head.location,
            ),
        )
    return RemovedRows(remove=tuple(remove), deletes=tuple(deletes))


def _between(low: int, high: int, held: Sequence[PartitionObservation]) -> list[tuple[int, int]]:
    """The ranges from low to high that none of the partitions covers."""
    ranges, at = [], low
    for partition in sorted(held, key=lambda partition: partition.lo):
        if partition.lo > at:
            ranges.append((at, partition.lo))
        at = max(at, partition.hi)
    return [*ranges, (at, high)] if at < high else ranges


def _tier_key_id(registered: RegisteredTable) -> int:
    return next(column.field_id for column in registered.columns if column.name == registered.tier_key)
