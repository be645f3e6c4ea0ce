"""Rows of a result, read and sent in pieces of any size."""

from __future__ import annotations

from concurrent.futures import Executor, Future, wait

from thermocline.errors import StatementRefused
from thermocline.gateway.lake_arm.row_sources import RowSource
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import TEXT_FORMAT, EncodedRows, ResultFormat

_WORTH_AHEAD_ROWS = 8_192


class ResultStream:
    """Rows of an answer, taken in pieces of any size."""

    def __init__(self, source: RowSource, ahead: Executor | None = None) -> None:
        """With `ahead` the next rows are read and encoded there while the last ones are sent: never more than one batch
        in advance."""
        self._source = source
        self._shape: ResultFormat | None = None
        self._rows: EncodedRows | None = None
        self._at = 0
        self._ahead = ahead
        self._coming: Future[EncodedRows | None] | None = None

    def fields(self) -> tuple[Field, ...]:
        return self._source.fields()

    def buffered(self, limit: int | None) -> tuple[memoryview, int] | None:
        """Rows that are here already, at most `limit`."""
        if self._rows is None or self._at >= self._rows.row_count:
            return None
        count = self._rows.row_count - self._at
        count = count if limit is None else min(count, limit)
        piece = self._rows.piece(self._at, count)
        self._at += count
        return piece, count

    def advance(self, shape: ResultFormat = TEXT_FORMAT) -> bool:
        """Reads the next rows; False at the end. All pieces of an answer have one shape."""
        if self._shape not in (None, shape):
            raise StatementRefused("The gateway sends all rows of a cursor in one format.")
        self._shape = shape
        coming, self._coming = self._coming, None
        self._rows, self._at = coming.result() if coming is not None else self._source.next_rows(shape), 0
        if self._rows is not None and self._ahead is not None and self._rows.row_count >= _WORTH_AHEAD_ROWS:
            self._coming = self._ahead.submit(self._source.next_rows, shape)
        return self._rows is not None

    def interrupt(self) -> None:
        self._source.interrupt()

    def close(self) -> None:
        self._rows = None
        coming, self._coming = self._coming, None
        if coming is not None and not coming.cancel():
            self._source.interrupt()
            wait([coming])
        self._source.close()
