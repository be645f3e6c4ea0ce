"""Encode rows in Postgres' text form in the format that the client requested."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from thermocline.core.types import COLUMN_TYPES_BY_OID, ColumnType
from thermocline.gateway.sql.values import Constant, Infinity, parse_value
from thermocline.gateway.wire.binary_format import TEXT_OIDS, encode_numeric, refuse_type
from thermocline.gateway.wire.messages import Field, data_row
from thermocline.gateway.wire.row_encoding import EncodedRows, ResultFormat, copy_line, copy_message


def encode_text_rows(
    rows: Sequence[Sequence[bytes | None]], fields: Sequence[Field], shape: ResultFormat
) -> EncodedRows:
    """Encode rows of text values in the client's format."""
    if shape.is_copy:
        return copy_message(b"".join(copy_line(row) for row in rows), len(rows))
    binary = [at for at in range(len(fields)) if shape.is_binary(at)]
    if binary:
        rows = [_with_binary(list(row), fields, binary) for row in rows]
    return concatenate_messages([data_row(row) for row in rows])


def _with_binary(row: list[bytes | None], fields: Sequence[Field], binary: Sequence[int]) -> list[bytes | None]:
    for at in binary:
        value = row[at]
        row[at] = None if value is None else text_to_binary(value, fields[at].type_oid)
    return row


def concatenate_messages(messages: Sequence[bytes]) -> EncodedRows:
    """Join messages into one piece."""
    offsets = np.cumsum([0, *(len(message) for message in messages)], dtype=np.int64)
    return EncodedRows(memoryview(b"".join(messages)), offsets)


def text_to_binary(text: bytes, oid: int) -> bytes:
    """One value in binary form, from its text form."""
    if oid in TEXT_OIDS:
        return text
    declared = COLUMN_TYPES_BY_OID.get(oid)
    match declared.lake.text_form if declared is not None else None:
        case "hex":
            return bytes.fromhex(text[2:].decode())
        case "uuid":
            return uuid.UUID(text.decode()).bytes
        case "decimal":
            return encode_numeric(Decimal(text.decode()))
        case "boolean":
            return b"\x01" if text == b"t" else b"\0"
    if declared is None or declared.wire is None:
        raise refuse_type(oid)
    return np.array(_number(text.decode(), declared)).astype(declared.wire).tobytes()


def _number(text: str, declared: ColumnType) -> int | float:
    match declared.lake.text_form:
        case "float":
            return float(text)
        case "integer":
            return int(text)
    value = parse_value(declared.lake.name, Constant(text, "unknown"))
    if isinstance(value, Infinity):
        return (1 << declared.value_bits) - 1 if value.positive else -(1 << declared.value_bits)
    since_1970: int = int(value) if isinstance(value, int) else 0
    return since_1970 - declared.lake.postgres_epoch
