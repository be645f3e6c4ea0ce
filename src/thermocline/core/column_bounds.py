"""Lower and upper bounds of a column as Iceberg's manifests hold them: their order, their bytes, and how long text is
cut.

Invariant: no value of the file lies outside its bounds in Iceberg's order. A bound that cannot be made is left out,
which every reader takes for "may be anything"; a bound that is wrong makes every reader skip rows that are there.

Values are held so that Python compares them as Iceberg does: whole numbers, dates (days), times and timestamps
(microseconds) and the unscaled numbers of decimals as int, floats as float, text (UTF-8), uuid, fixed and binary as
bytes, whose order is unsigned.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass

Value = int | float | bytes

INTEGERS = frozenset(("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))
FLOATS = frozenset(("float", "double"))
_FOUR_BYTES = frozenset(("int", "date"))
_LONG = frozenset(("string", "binary", "fixed"))
_PLAIN = frozenset(("boolean", "string", "uuid", "binary", *INTEGERS, *FLOATS))
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """A primitive type of Iceberg's that has an order; `kind` is its name without parameters."""

    kind: str
    precision: int = 0
    scale: int = 0
    length: int = 0


def parse_type(text: str) -> ColumnType | None:
    """`decimal(9, 2)`, `fixed[16]`, `string`; None for a type that has no bounds."""
    if text in _PLAIN:
        return ColumnType(kind=text, length=16 if text == "uuid" else 0)
    if found := _DECIMAL.fullmatch(text):
        return ColumnType(kind="decimal", precision=int(found[1]), scale=int(found[2]))
    if found := _FIXED.fullmatch(text):
        return ColumnType(kind="fixed", length=int(found[1]))
    return None


def lower_bound(kind: ColumnType, value: Value, length: int | None) -> bytes | None:
    """The bytes of a bound that is not above `value`, cut to `length` characters; None: cannot be made."""
    if kind.kind not in _LONG or not isinstance(value, bytes):
        return _encode(kind, _zero(value, -0.0))
    if kind.kind != "string":
        return _whole(value, length)
    if (text := _text(value)) is None:
        return None
    return value if length is None or len(text) <= length else text[:length].encode()


def upper_bound(kind: ColumnType, value: Value, length: int | None) -> bytes | None:
    """The bytes of a bound that is not below `value`; what is cut off is made up for by raising what is left."""
    if kind.kind not in _LONG or not isinstance(value, bytes):
        return _encode(kind, _zero(value, 0.0))
    if kind.kind != "string":
        return _whole(value, length)
    if (text := _text(value)) is None:
        return None
    return value if length is None or len(text) <= length else _raise_text(text[:length])


def decode_bound(kind: ColumnType, encoded: bytes) -> Value | None:
    """A bound read from a manifest; None for bytes that are none of this type, and for NaN, which is no bound.

    Numbers are read at the width they were written in, so that files from before a widening can be read. Days are no
    timestamp.
    """
    try:
        if kind.kind in FLOATS:
            number: float = struct.unpack("<f" if len(encoded) == 4 else "<d", encoded)[0]
            return None if math.isnan(number) else number
        if kind.kind == "boolean":
            return encoded[0] if len(encoded) == 1 else None
        if kind.kind in INTEGERS:
            widths = (4, 8) if kind.kind == "long" else (4,) if kind.kind in _FOUR_BYTES else (8,)
            return int.from_bytes(encoded, "little", signed=True) if len(encoded) in widths else None
        if kind.kind == "decimal":
            return int.from_bytes(encoded, "big", signed=True) if encoded else None
        if kind.kind == "uuid":
            return encoded if len(encoded) == 16 else None
        return encoded
    except struct.error:
        return None


def union(ends: tuple[Value, Value] | None, other: tuple[Value, Value]) -> tuple[Value, Value]:
    """The range that holds both."""
    if ends is None:
        return other
    return _least(ends[0], other[0]), _most(ends[1], other[1])


def uuid_ends(low: Value | None, high: Value | None) -> tuple[Value | None, Value | None]:
    """The ends of uuids that hold in both orders readers go by: bytes, and Java's, which takes either half for a signed
    number.

    Between ends of different signs Java finds nothing at all. Where the first halves have one sign their orders agree;
    values that share a first half with an end stay on its side in Java only if the second halves cannot differ in sign.
    """
    if not isinstance(low, bytes) or not isinstance(high, bytes) or _sign(low[:8]) != _sign(high[:8]):
        return None, None
    if low[:8] == high[:8]:
        return (low, high) if _sign(low[8:]) == _sign(high[8:]) else (None, None)
    return low if _sign(low[8:]) else None, None if _sign(high[8:]) else high


def _sign(half: bytes) -> bool:
    return half[0] >= 0x80


def _least(one: Value, other: Value) -> Value:
    return other if other < one else one  # type: ignore[operator]  # of one column, so of one kind


def _most(one: Value, other: Value) -> Value:
    return other if other > one else one  # type: ignore[operator]


def _zero(value: Value, zero: float) -> Value:
    """The two zeros are equal in SQL and -0.0 comes first in Iceberg's order, so a bound of zero holds both."""
    return zero if isinstance(value, float) and value == 0.0 else value


def _encode(kind: ColumnType, value: Value) -> bytes | None:
    if isinstance(value, bytes):
        return value if kind.kind == "uuid" and len(value) == 16 else None
    if kind.kind in FLOATS:
        return None if math.isnan(value) else struct.pack("<f" if kind.kind == "float" else "<d", value)
    if isinstance(value, float):
        return None
    if kind.kind == "decimal":
        return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
    size = 1 if kind.kind == "boolean" else 4 if kind.kind in _FOUR_BYTES else 8
    try:
        return value.to_bytes(size, "little", signed=kind.kind != "boolean")
    except OverflowError:
        return None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None  # statistics that a writer cut within a character; nobody could read such a bound as text


def _raise_text(text: str) -> bytes | None:
    """The shortest text above every one that begins so, or None: its last character goes up by one, past those that
    cannot."""
    for at in range(len(text) - 1, -1, -1):
        raised = ord(text[at]) + 1
        if raised in _SURROGATES:
            raised = _SURROGATES.stop
        if raised <= _LAST_CODE_POINT:
            return (text[:at] + chr(raised)).encode()
    return None


def _whole(value: bytes, length: int | None) -> bytes | None:
    """Binary is never cut: of text alone does Spark know that a bound may be, and `max()` would give what is no
    value."""
    return value if length is None or len(value) <= length else None
