"""The Spark task of tiering: read a block range of one heap partition at an exported snapshot, write it as lake files,
and check them.

Postgres sends binary COPY, ADBC converts it to Arrow, `arrow_types.py` casts it to the lake's types, `lake_writer.py`
writes the files and reads them back. The row hashes come from Postgres in the same scan, so equal checksums prove that
the files hold the heap's rows.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg import sql

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.errors import EncodingUnsupported
from thermocline.parquet.encode.lake_writer import BUFFER_BYTES, ROW_GROUP_BYTES, FileTarget, LakeWriter, WrittenFile
from thermocline.parquet.values.arrow_types import arrow_schema, lake_array
from thermocline.parquet.values.partition_values import LakePartition, check_supported
from thermocline.parquet.values.row_checksum import RowSum, sum_hashes
from thermocline.runtime.pg import SESSION_SETTINGS, Connection, connect, pinned_dsn, render_settings
from thermocline.spark.kernels.select_list import plan_copy_query

TARGET_FILE_BYTES = 128 << 20
MEMORY_BYTES = 512 << 20
COMPRESSION_LEVEL = 1
_BATCH_BYTES = 8 << 20
_COPY_SETTINGS = {
    **SESSION_SETTINGS,
    "statement_timeout": "0",
    # A DROP that waits for the snapshot's session may be queued before this statement: without a timeout both would
    # wait for each other.
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "0",
    "jit": "off",
    "application_name": "thermocline copy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """One block range of one heap partition; `hi_block` None reads to the end. `directory` is the lake table's
    location, a URI."""

    dsn: str = field(repr=False)
    table_id: int
    op_id: str
    number: int
    partition: TableName
    snapshot_name: str
    lo_block: int
    hi_block: int | None
    columns: tuple[LakeColumn, ...]
    tier_key: str
    lake_partition: LakePartition | None
    directory: str
    target_file_bytes: int = TARGET_FILE_BYTES
    compression_level: int = COMPRESSION_LEVEL
    memory_bytes: int = MEMORY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedRange:
    """The result of one attempt of a task; `heap` and `lake` are equal when every value arrived."""

    number: int
    files: tuple[WrittenFile, ...]
    heap: RowSum
    lake: RowSum
    peak_bytes: int


def copy_range(task: CopyTask, attempt: int) -> CopiedRange:
    """Copy and check one block range. `attempt` is part of the file names, so that a retry has its own."""
    check_supported(task.lake_partition)
    # Arrow's own pool returns pages between row groups and faults them in again; the system's pool keeps them.
    pa.set_memory_pool(pa.system_memory_pool())
    heap = RowSum()
    schema = arrow_schema(task.columns)
    with closing(connect(task.dsn, autocommit=True, application_name="thermocline copy")) as journal:
        writer = LakeWriter(_file_target(task, attempt), registrar(journal, task.table_id, task.op_id))
        query = plan_copy_query(task.partition, task.columns, task.lo_block, task.hi_block, journal.info.server_version)
        try:
            with open_rows(task.dsn, task.snapshot_name, query, min(_BATCH_BYTES, task.memory_bytes // 16)) as batches:
                for batch in batches:
                    heap += sum_hashes(batch.column(len(task.columns)).to_numpy())
                    arrays = [
                        lake_array(batch.column(position), column) for position, column in enumerate(task.columns)
                    ]
                    writer.write(pa.RecordBatch.from_arrays(arrays, schema=schema))
            writer.close()
        finally:
            writer.abort()
    return CopiedRange(
        number=task.number, files=tuple(writer.files), heap=heap, lake=writer.checksum, peak_bytes=read_peak_bytes()
    )


def read_peak_bytes() -> int:
    """The peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def open_rows(
    dsn: str, snapshot_name: str, query: sql.Composable, batch_bytes: int = _BATCH_BYTES
) -> Iterator[Iterator[pa.RecordBatch]]:
    """A query's rows as Arrow batches, at the exported snapshot."""
    with adbc.connect(pinned_dsn(dsn), autocommit=True) as connection, connection.cursor() as cursor:
        _execute(cursor, render_settings(_COPY_SETTINGS))
        cursor.fetchall()
        cursor.execute("select current_setting('server_encoding')")
        encoding = cursor.fetchone()[0]
        if encoding != "UTF8":
            raise EncodingUnsupported(f"The database is in {encoding}, and the lake is UTF-8.")
        cursor.execute("begin isolation level repeatable read read only")
        _execute(cursor, sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot_name)))
        cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(batch_bytes)})
        _execute(cursor, query)
        yield iter(cursor.fetch_record_batch())


def _execute(cursor: Any, statement: sql.Composable) -> None:
    cursor.execute(statement.as_string(None))


def _file_target(task: CopyTask, attempt: int) -> FileTarget:
    return FileTarget(
        columns=task.columns,
        tier_key=task.tier_key,
        partition=task.lake_partition,
        directory=task.directory,
        stem=f"{task.op_id}-{task.number}-{attempt}",
        target_file_bytes=task.target_file_bytes,
        compression_level=task.compression_level,
        row_group_bytes=task.memory_bytes * ROW_GROUP_BYTES // MEMORY_BYTES,
        buffer_bytes=task.memory_bytes * BUFFER_BYTES // MEMORY_BYTES,
    )


def registrar(journal: Connection, table_id: int, op_id: str) -> Callable[[str], None]:
    """A function that registers a path as staged by this op, before the file is opened."""

    def register(path: str) -> None:
        journal.execute(
            "insert into thermocline.staged_files (path, table_id, op_id) values (%s, %s, %s)", (path, table_id, op_id)
        )

    return register
