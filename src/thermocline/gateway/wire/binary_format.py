"""Values in Postgres' binary form: whole Arrow columns, and single values from their text.

A type that has no entry here is refused by its number; the client may ask for text instead.
"""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thermocline.core.types import COLUMN_TYPES_BY_OID, FIRST_DAY, LAST_DAY, MICROSECONDS_PER_DAY, ColumnType
from thermocline.errors import StatementRefused

_TEXT_FORM_OIDS = (18, 19, 114, 705, 1042)
TEXT_OIDS = frozenset(
    (*_TEXT_FORM_OIDS, *(oid for oid, declared in COLUMN_TYPES_BY_OID.items() if declared.lake.text_form == "plain"))
)
"""Types whose binary form is their text: those held natively, and char, name, json, unknown and bpchar."""


def to_binary(column: pa.Array, oid: int) -> pa.Array:
    """One column in binary form, nulls kept."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.large_binary())
    declared = COLUMN_TYPES_BY_OID.get(oid)
    form = declared.lake.text_form if declared is not None else None
    if oid in TEXT_OIDS or form == "hex":
        return column.cast(pa.large_binary())
    if form == "decimal":
        return pa.array(
            [None if value is None else encode_numeric(Decimal(value)) for value in column.to_pylist()],
            pa.large_binary(),
        )
    if form == "uuid":
        return pa.array(
            [None if value is None else _uuid_bytes(value) for value in column.to_pylist()], pa.large_binary()
        )
    if declared is None or declared.wire is None:
        raise refuse_type(oid)
    kind = np.dtype(declared.wire)
    numbers = _numbers(column, declared)
    data = pa.py_buffer(numbers.astype(kind).tobytes())
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(kind.itemsize), len(column), [None, data]).cast(
        pa.large_binary()
    )
    return fixed if column.null_count == 0 else pc.if_else(column.is_valid(), fixed, pa.scalar(None, pa.large_binary()))


def _numbers(column: pa.Array, declared: ColumnType) -> Any:
    match declared.lake.text_form:
        case "date":
            whole = column.cast(pa.int32())
            check_days(whole)
        case "timestamp" | "timestamptz":
            whole = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            check_days(whole, MICROSECONDS_PER_DAY)
        case "time":
            whole = column.cast(pa.time64("us")).cast(pa.int64())
        case _:
            return pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False)
    return pc.fill_null(whole, 0).to_numpy(zero_copy_only=False) - declared.lake.postgres_epoch


def check_days(numbers: pa.Array, units_per_day: int = 1) -> None:
    """Raise for a date or moment beyond Postgres' calendar. DuckDB's is longer, and Postgres would have refused to
    compute such a value."""
    ends = pc.min_max(numbers).as_py()
    if ends["min"] is not None and not (
        ends["min"] >= FIRST_DAY * units_per_day and ends["max"] < (LAST_DAY + 1) * units_per_day
    ):
        raise ValueError("a date or moment beyond Postgres' calendar")


def _uuid_bytes(value: str | bytes | uuid.UUID) -> bytes:
    return (
        value.bytes if isinstance(value, uuid.UUID) else value if isinstance(value, bytes) else uuid.UUID(value).bytes
    )


def encode_numeric(value: Decimal) -> bytes:
    """A numeric: digits of base 10,000 with the weight of the first, and the scale that is shown."""
    if not value.is_finite():
        sign = 0xC000 if value.is_nan() else 0xD000 if value > 0 else 0xF000
        return struct.pack(">hhHh", 0, 0, sign, 0)
    negative, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    whole = int("".join(map(str, digits)) or "0") * 10 ** max(0, int(exponent))
    padding = -scale % 4
    whole *= 10**padding
    groups: list[int] = []
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.append(group)
    weight = len(groups) - 1 - (scale + padding) // 4
    groups.reverse()
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        return struct.pack(">hhHh", 0, 0, 0, scale)
    return struct.pack(f">hhHh{len(groups)}h", len(groups), weight, 0x4000 if negative else 0, scale, *groups)


def refuse_type(oid: int) -> StatementRefused:
    return StatementRefused(f"The gateway does not send values of type {oid} in binary.", hint="Ask for text.")
