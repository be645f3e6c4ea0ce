"""Rows of a result, read and sent in pieces of any size.

A result ends in one way only: its source said that there are no more rows. One that failed, or was closed before that,
raises an error whenever it is asked again, and never looks as if it had ended.
"""

from __future__ import annotations

from thermocline.errors import StatementRefused
from thermocline.gateway.lake_arm.row_sources import RowSource
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import TEXT_FORMAT, EncodedRows, ResultFormat


class ResultNotReadable(Exception):
    """The result was closed before its last row."""


class ResultStream:
    """Rows of a result, taken in pieces of any size."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._shape: ResultFormat | None = None
        self._rows: EncodedRows | None = None
        self._at = 0
        self._is_ended = False
        self._is_closed = False
        self._problem: Exception | None = None

    def fields(self) -> tuple[Field, ...]:
        self._check_readable()
        try:
            return self._source.fields()
        except BaseException as problem:
            self.fail(problem)
            raise

    def check_format(self, shape: ResultFormat) -> None:
        """Refuse another format than before: rows that are buffered, or prefetched, have that one."""
        if self._shape not in (None, shape):
            raise StatementRefused("The gateway sends all rows of a cursor in one format.")

    def buffered(self, limit: int | None) -> tuple[memoryview, int] | None:
        """Rows that are buffered already, at most `limit`."""
        self._check_readable()
        if self._rows is None or self._at >= self._rows.row_count:
            return None
        count = self._rows.row_count - self._at
        count = count if limit is None else min(count, limit)
        piece = self._rows.piece(self._at, count)
        self._at += count
        return piece, count

    def advance(self, shape: ResultFormat = TEXT_FORMAT) -> bool:
        """Read the next rows; False at the end. All pieces of a result have one format."""
        self._check_readable()
        self.check_format(shape)
        if self._is_ended:
            return False
        self._shape = shape
        try:
            self._rows, self._at = self._source.next_rows(shape), 0
        except BaseException as problem:
            self.fail(problem)
            raise
        self._is_ended = self._rows is None
        return not self._is_ended

    def fail(self, problem: BaseException) -> None:
        """Rows of this result may be lost: from now on it raises the first problem."""
        if self._problem is None:
            self._problem = problem if isinstance(problem, Exception) else ResultNotReadable()

    def interrupt(self) -> None:
        self._source.interrupt()

    def close(self) -> None:
        self._is_closed = True
        self._rows = None
        self._source.close()

    def _check_readable(self) -> None:
        if self._problem is not None:
            raise self._problem
        if self._is_closed and not self._is_ended:
            raise ResultNotReadable
