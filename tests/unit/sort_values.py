"""Values of every sortable type, and their Iceberg order in plain Python."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from thermocline.parquet.sort.row_order import Direction

_NEGATIVE_NAN: float = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
_MOMENT = dt.datetime(2026, 11, 16)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1, 0, -1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 0, -1, 1]),
    "float": (pa.float32(), [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45, -1e-45]),
    "double": (pa.float64(), [0.0, -0.0, math.nan, _NEGATIVE_NAN, math.inf, -math.inf, 5e-324, -5e-324]),
    "decimal(9,2)": (pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("9999999.99"), Decimal("0.01"), Decimal(0)]),
    "decimal(18,0)": (pa.decimal128(18, 0), [Decimal(-(10**18) + 1), Decimal(10**18 - 1), Decimal(-1), Decimal(0)]),
    "decimal(38,4)": (
        pa.decimal128(38, 4),
        [Decimal("-1e33"), Decimal("1e33"), Decimal("18446744073709551616.5"), Decimal("-0.0001")],
    ),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12)]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31), _MOMENT]),
    "timestamptz": (
        pa.timestamp("us", "UTC"),
        [_MOMENT.replace(tzinfo=dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    ),
    "string": (pa.string(), ["", "a", "a\x00", "ab", "é", "\uffff", "\U0001f40d"]),
    "binary": (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]),
    "fixed[2]": (pa.binary(2), [b"\x00\x00", b"\x7f\xff", b"\x80\x00", b"\xff\xff"]),
    "uuid": (
        pa.uuid(),
        [uuid.UUID(int=0), uuid.UUID(int=2**127 - 1), uuid.UUID(int=2**127), uuid.UUID(int=2**128 - 1)],
    ),
}
KINDS = list(VALUES)


def comparable(value: Any) -> Any:
    """A value in a form that Python orders as Iceberg does: every NaN greatest, -0.0 below 0.0, text and uuids by their
    bytes."""
    if isinstance(value, float):
        return (
            math.isnan(value),
            0.0 if math.isnan(value) else value,
            0.0 if math.isnan(value) else math.copysign(1, value),
        )
    if isinstance(value, str):
        return value.encode()
    return value.bytes if isinstance(value, uuid.UUID) else value


def compare(left: Any, right: Any, direction: Direction) -> int:
    if left is None or right is None:
        return 0 if left is right else (-1 if (left is None) == direction.nulls_first else 1)
    one, other = comparable(left), comparable(right)
    way = int(one > other) - int(one < other)
    return -way if direction.descending else way


DIRECTIONS = st.builds(Direction, descending=st.booleans(), nulls_first=st.booleans())
