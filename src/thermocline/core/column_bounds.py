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
import struct

from thermocline.core.types import LAKE_TYPES, PrimitiveType

Value = int | float | bytes

_WIDTHS = {
    declared.name: frozenset(
        4 if before.storage == "int4" else 8
        for before in LAKE_TYPES.values()
        if before is declared or before.promotes_to == declared.name
    )
    for declared in LAKE_TYPES.values()
    if declared.is_integral
}
"""Widths in bytes of a whole number that was written as the type, or as one that is promoted to it."""
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def lower_bound(kind: PrimitiveType, value: Value, length: int | None) -> bytes | None:
    """The bytes of a bound that is not above `value`, cut to `length` characters; None: cannot be made."""
    if LAKE_TYPES[kind.kind].storage not in ("text", "bytes") or not isinstance(value, bytes):
        return _encode(kind, _zero(value, -0.0))
    if LAKE_TYPES[kind.kind].storage != "text":
        return _whole(value, length)
    if (text := _text(value)) is None:
        return None
    return value if length is None or len(text) <= length else text[:length].encode()


def upper_bound(kind: PrimitiveType, value: Value, length: int | None) -> bytes | None:
    """The bytes of a bound that is not below `value`; what is cut off is made up for by raising what is left."""
    if LAKE_TYPES[kind.kind].storage not in ("text", "bytes") or not isinstance(value, bytes):
        return _encode(kind, _zero(value, 0.0))
    if LAKE_TYPES[kind.kind].storage != "text":
        return _whole(value, length)
    if (text := _text(value)) is None:
        return None
    return value if length is None or len(text) <= length else _raise_text(text[:length])


def decode_bound(kind: PrimitiveType, encoded: bytes) -> Value | None:
    """A bound read from a manifest; None for bytes that are none of this type, and for NaN, which is no bound.

    Numbers are read at the width they were written in, so that files from before a widening can be read. Days are no
    timestamp.
    """
    try:
        match LAKE_TYPES[kind.kind].storage:
            case "int8" | "int4":
                return int.from_bytes(encoded, "little", signed=True) if len(encoded) in _WIDTHS[kind.kind] else None
            case "float4" | "float8":
                number: float = struct.unpack("<f" if len(encoded) == 4 else "<d", encoded)[0]
                return None if math.isnan(number) else number
            case "boolean":
                return encoded[0] if len(encoded) == 1 else None
            case "decimal":
                return int.from_bytes(encoded, "big", signed=True) if encoded else None
            case "uuid":
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


def _encode(kind: PrimitiveType, value: Value) -> bytes | None:
    storage = LAKE_TYPES[kind.kind].storage
    if isinstance(value, bytes):
        return value if storage == "uuid" and len(value) == 16 else None
    if storage in ("float4", "float8"):
        return None if math.isnan(value) else struct.pack("<f" if storage == "float4" else "<d", value)
    if isinstance(value, float):
        return None
    if storage == "decimal":
        return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
    size = 1 if storage == "boolean" else 4 if storage == "int4" else 8
    try:
        return value.to_bytes(size, "little", signed=storage != "boolean")
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
