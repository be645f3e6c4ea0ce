"""Where the rows of an answer come from, one encoded batch at a time. All of it blocks; the shell runs it in
threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from thermocline.gateway.wire.binary_format import binary_of_text
from thermocline.gateway.wire.messages import Field, data_row
from thermocline.gateway.wire.row_encoding import EncodedRows, Shape, copy_line, copy_message


class Cancelled(Exception):
    """The statement was stopped on request."""


class RowSource(Protocol):
    """An answer being read."""

    def fields(self) -> tuple[Field, ...]:
        """The columns of the answer."""

    def next_rows(self, shape: Shape) -> EncodedRows | None:
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

    def next_rows(self, shape: Shape) -> EncodedRows | None:
        if not self._rows:
            return None
        rows, self._rows = self._rows, []
        return encode_texts(rows, self._fields, shape)

    def interrupt(self) -> None:
        return None

    def close(self) -> None:
        self._rows = []


def encode_texts(rows: Sequence[Sequence[bytes | None]], fields: Sequence[Field], shape: Shape) -> EncodedRows:
    """Rows given in text form, in the shape the client wants."""
    if shape.is_copy:
        return copy_message(b"".join(copy_line(row) for row in rows), len(rows))
    binary = [at for at in range(len(fields)) if shape.is_binary(at)]
    if binary:
        rows = [_with_binary(list(row), fields, binary) for row in rows]
    return encoded([data_row(row) for row in rows])


def _with_binary(row: list[bytes | None], fields: Sequence[Field], binary: Sequence[int]) -> list[bytes | None]:
    for at in binary:
        value = row[at]
        row[at] = None if value is None else binary_of_text(value, fields[at].type_oid)
    return row


def encoded(messages: Sequence[bytes]) -> EncodedRows:
    """Single messages as one piece."""
    offsets = np.cumsum([0, *(len(message) for message in messages)], dtype=np.int64)
    return EncodedRows(memoryview(b"".join(messages)), offsets)
