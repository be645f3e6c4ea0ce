"""Sources of result rows, one encoded batch at a time. All calls block, so sessions make them in threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from thermocline.gateway.lake_arm.text_rows import encode_text_rows
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat


class RowSource(Protocol):
    """A result being read."""

    def fields(self) -> tuple[Field, ...]:
        """The columns of the result."""

    def next_rows(self, shape: ResultFormat) -> EncodedRows | None:
        """The next rows, or `None` at the end."""

    def interrupt(self) -> None:
        """Stop a call that runs in another thread."""

    def close(self) -> None:
        """Release all resources."""


class ConstantRows:
    """Constant rows; also an empty result."""

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
