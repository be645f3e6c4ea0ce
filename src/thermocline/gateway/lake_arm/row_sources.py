"""Where the rows of an answer come from, one encoded batch at a time. All of it blocks; the shell runs it in
threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from thermocline.gateway.lake_arm.text_rows import encode_text_rows
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat


class Cancelled(Exception):
    """The statement was stopped on request."""


class RowSource(Protocol):
    """An answer being read."""

    def fields(self) -> tuple[Field, ...]:
        """The columns of the answer."""

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        """The next rows, or `None` at the end."""

    def interrupt(self) -> None:
        """Stops what runs in another thread."""

    def close(self) -> None:
        """Lets go of everything."""


class ConstantRows:
    """Rows known beforehand; also the empty answer."""

    def __init__(self, fields: Sequence[Field], rows: Sequence[Sequence[bytes | None]] = ()) -> None:
        self._fields = tuple(fields)
        self._rows = list(rows)

    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        if not self._rows:
            return None
        rows, self._rows = self._rows, []
        return encode_text_rows(rows, self._fields, shape)

    def interrupt(self) -> None:
        return None

    def close(self) -> None:
        self._rows = []
