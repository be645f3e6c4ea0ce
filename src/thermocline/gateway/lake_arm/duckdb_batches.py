"""Arrow batches of one DuckDB statement."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from thermocline.errors import LakeFileUnreadable, StatementTooLarge
from thermocline.gateway.lake_arm.invalid_utf8 import find_invalid_utf8
from thermocline.gateway.lake_arm.memory_limits import ConnectionMemory
from thermocline.gateway.lake_arm.row_sources import Cancelled
from thermocline.gateway.sql.fragments import Fragment, Parameter
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat, encode_rows

MAX_BATCH_ROWS = 32_768
_TURN_SECONDS = 0.2


class DuckDbBatches:
    """Arrow batches of one DuckDB statement; so many statements compute at once, others wait for their turn."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection | None,
        statement: Fragment,
        turns: threading.BoundedSemaphore,
        rows: int = MAX_BATCH_ROWS,
    ) -> None:
        self._turns = turns
        self._cursor = cursor
        self._statement = statement
        self._rows = rows
        self._reader: pa.RecordBatchReader | None = None
        self._stopped = False

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch with rows in it."""
        cursor = self._opened()
        while not self._turns.acquire(timeout=_TURN_SECONDS):
            if self._stopped:
                raise Cancelled
        try:
            return self._computed(cursor)
        finally:
            self._turns.release()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._cursor is None:
            raise Cancelled
        return self._cursor

    def _computed(self, cursor: duckdb.DuckDBPyConnection) -> pa.RecordBatch | None:
        try:
            if self._stopped:
                raise Cancelled
            if self._reader is None:
                values: list[Parameter] = list(self._statement.parameters)
                self._reader = cursor.execute(self._statement.text, values).to_arrow_reader(self._rows)
            for batch in self._reader:
                if batch.num_rows:
                    return batch
            return None
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            raise self._problem(problem) from problem

    def _problem(self, problem: BaseException) -> Exception:
        return translate_duckdb_error(problem)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def interrupt(self) -> None:
        self._stopped = True
        if self._cursor is not None:
            self._cursor.interrupt()

    def close(self) -> None:
        self._reader = None
        if self._cursor is not None:
            self._cursor.close()


class LimitedBatches(DuckDbBatches):
    """Batches of a statement that holds rows, under its connection's own limit."""

    def __init__(
        self, memory: ConnectionMemory, statement: Fragment, turns: threading.BoundedSemaphore, rows: int
    ) -> None:
        super().__init__(None, statement, turns, rows)
        self._memory = memory
        self._closed = False

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._closed:
            raise Cancelled
        if self._cursor is None:
            self._cursor = self._memory.take(lambda: self._stopped)
        return self._cursor

    def _problem(self, problem: BaseException) -> Exception:
        told = translate_duckdb_error(problem)
        if not isinstance(told, MemoryError):
            return told
        limit = self._memory.limit_bytes // 1_000_000
        return StatementTooLarge(f"The statement needs more than the {limit} MB of memory that one connection may use.")

    def close(self) -> None:
        cursor, self._cursor, self._reader, self._closed = self._cursor, None, None, True
        if cursor is not None:
            self._memory.give_back(cursor)


class DuckDbRows:
    """A DuckDB statement as a row source."""

    def __init__(self, fields: tuple[Field, ...], batches: DuckDbBatches) -> None:
        self._fields = fields
        self._batches = batches

    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        batch = self._batches.next_batch()
        return None if batch is None else encode_rows(batch, shape, [field.type_oid for field in self._fields])

    def interrupt(self) -> None:
        self._batches.interrupt()

    def close(self) -> None:
        self._batches.close()


def translate_duckdb_error(problem: BaseException) -> Exception:
    """DuckDB's error as one of ours; its text may quote data, so only the first line is kept."""
    text = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
    if isinstance(problem, duckdb.InterruptException) or "INTERRUPT" in text:
        return Cancelled()
    if isinstance(problem, duckdb.OutOfMemoryException) or "Out of Memory" in text:
        return MemoryError(text)
    if (told := find_invalid_utf8(text)) is not None:
        return told
    return LakeFileUnreadable(f"The lake cannot be read: {text}")
