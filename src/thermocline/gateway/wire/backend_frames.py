"""Fields of messages that Postgres sends, decoded from their frames."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from thermocline.gateway.wire.frames import Frame


def decode_data_row(frame: Frame) -> list[bytes | None]:
    """The values of a DataRow."""
    (count,) = struct.unpack_from(">H", frame.body)
    values: list[bytes | None] = []
    at = 2
    for _ in range(count):
        (length,) = struct.unpack_from(">i", frame.body, at)
        at += 4
        values.append(None if length < 0 else frame.body[at : at + length])
        at += max(0, length)
    return values


def decode_parameter_oids(frame: Frame) -> tuple[int, ...]:
    """The types of a ParameterDescription."""
    (count,) = struct.unpack_from(">H", frame.body)
    return struct.unpack_from(f">{count}I", frame.body, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumn:
    """One column of a RowDescription."""

    name: str
    type_oid: int


def decode_row_description(frame: Frame) -> tuple[RowColumn, ...]:
    """The columns of a RowDescription."""
    (count,) = struct.unpack_from(">H", frame.body)
    columns: list[RowColumn] = []
    at = 2
    for _ in range(count):
        end = frame.body.index(b"\0", at)
        name = frame.body[at:end].decode("utf-8", "replace")
        # The name is followed by the table's oid (4 bytes) and the column's number (2).
        columns.append(RowColumn(name=name, type_oid=struct.unpack_from(">I", frame.body, end + 7)[0]))
        at = end + 19
    return tuple(columns)
