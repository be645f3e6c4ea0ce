"""A scan of the lake, as an executor runs it."""

from __future__ import annotations

from thermocline.errors import StatementTooLarge
from thermocline.gateway.executor.execution.duckdb_batches import DuckDbBatches
from thermocline.gateway.executor.execution.duckdb_databases import DuckDbDatabases
from thermocline.gateway.executor.jobs import ScanJob
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat, encode_rows


class ScanExecution:
    """The rows of a scan, encoded."""

    def __init__(self, databases: DuckDbDatabases, job: ScanJob) -> None:
        self._databases = databases
        self._job = job
        self._cursor = databases.take_held() if job.holds_rows else databases.cursor()
        self._batches = DuckDbBatches(self._cursor, job.statement, job.batch_rows)
        self._is_prepared = False

    @property
    def is_ended(self) -> bool:
        return self._batches.is_ended

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        if not self._is_prepared:
            self._databases.prepare(self._job.lake)
            self._is_prepared = True
        try:
            batch = self._batches.next_batch()
        except MemoryError as problem:
            if not self._job.holds_rows:
                raise
            limit = self._databases.config.memory.connection_bytes // 1_000_000
            raise StatementTooLarge(
                f"The statement needs more than the {limit} MB of memory that one connection may use."
            ) from problem
        return None if batch is None else encode_rows(batch, shape, self._job.type_oids)

    def interrupt(self) -> None:
        self._batches.interrupt()

    def close(self) -> None:
        self._batches.close()
        if self._job.holds_rows:
            self._databases.give_back_held(self._cursor)
        else:
            self._cursor.close()
