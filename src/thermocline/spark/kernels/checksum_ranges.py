"""The Spark tasks of adopting a lake: the checksum of one side's rows in a range, so that equal ranges are not
copied."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from psycopg import sql

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.parquet.deletes.position_deletes import PositionDeleteCache
from thermocline.parquet.values.row_checksum import RowSum, sum_hashes
from thermocline.runtime.pg import connect
from thermocline.spark.kernels.copy_partition import open_rows
from thermocline.spark.kernels.fold_range import CandidateFile
from thermocline.spark.kernels.select_list import HASH_COLUMN, plan_copy_query
from thermocline.spark.kernels.verify_rows import LakeShape, read_file_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapChecksumTask:
    """One block range of one heap partition at an exported snapshot."""

    dsn: str = field(repr=False)
    partition: TableName
    snapshot_name: str
    lo_block: int
    hi_block: int | None
    columns: tuple[LakeColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeChecksumTask:
    """The live rows of one lake file with low <= tier key < high."""

    file: CandidateFile
    shape: LakeShape
    low: int
    high: int


def checksum_rows(task: HeapChecksumTask | LakeChecksumTask, _attempt: int) -> tuple[bool, RowSum]:
    """The checksum, and whether it is the heap's."""
    match task:
        case HeapChecksumTask():
            return True, _sum_heap(task)
        case LakeChecksumTask():
            found = read_file_rows(task.file.path, task.shape, task.file.deletes, PositionDeleteCache())
            return False, sum_hashes(found.rows[(found.tier_keys >= task.low) & (found.tier_keys < task.high)])


def _sum_heap(task: HeapChecksumTask) -> RowSum:
    with closing(connect(task.dsn, autocommit=True, application_name="thermocline take up")) as conn:
        version = conn.info.server_version
    rows = plan_copy_query(task.partition, task.columns, task.lo_block, task.hi_block, version)
    query = sql.SQL("select q.{} from ({}) q").format(sql.Identifier(HASH_COLUMN), rows)
    with open_rows(task.dsn, task.snapshot_name, query) as batches:
        return sum((sum_hashes(batch.column(0).to_numpy()) for batch in batches), RowSum())
