"""Arrow batches of one DuckDB statement."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from thermocline.errors import LakeFileUnreadable
from thermocline.gateway.executor.execution.invalid_utf8 import find_invalid_utf8
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.sql.fragments import Fragment, Parameter

MAX_BATCH_ROWS = 32_768


class DuckDbBatches:
    """Batches of a statement that another thread may interrupt."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, statement: Fragment, batch_rows: int = MAX_BATCH_ROWS
    ) -> None:
        self._cursor = cursor
        self._statement = statement
        self._batch_rows = batch_rows
        self._reader: pa.RecordBatchReader | None = None
        self._following: list[pa.RecordBatch] = []
        self._stopped = False
        self.is_ended = False

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch with rows in it. `is_ended` is known after a batch that is not full: DuckDB fills them."""
        batch = self._following.pop() if self._following else self._compute_batch()
        if batch is not None and batch.num_rows < self._batch_rows and (more := self._compute_batch()) is not None:
            self._following.append(more)
        return batch

    def _compute_batch(self) -> pa.RecordBatch | None:
        try:
            if self._stopped:
                raise Cancelled
            if self.is_ended:
                return None
            if self._reader is None:
                values: list[Parameter] = list(self._statement.parameters)
                self._reader = self._cursor.execute(self._statement.text, values).to_arrow_reader(self._batch_rows)
            for batch in self._reader:
                if batch.num_rows:
                    return batch
            self.is_ended = True
            return None
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            raise translate_duckdb_error(problem) from problem

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def interrupt(self) -> None:
        self._stopped = True
        self._cursor.interrupt()

    def close(self) -> None:
        """Let go of the result; the cursor is its owner's to close."""
        self._reader = None
        self._following.clear()


def translate_duckdb_error(problem: BaseException) -> Exception:
    """DuckDB's error as one of ours. Only the first line is kept, because the text may quote data."""
    text = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
    if isinstance(problem, duckdb.InterruptException) or "INTERRUPT" in text:
        return Cancelled()
    if isinstance(problem, duckdb.OutOfMemoryException) or "Out of Memory" in text:
        return MemoryError(text)
    if (error := find_invalid_utf8(text)) is not None:
        return error
    return LakeFileUnreadable(f"The lake cannot be read: {text}")
