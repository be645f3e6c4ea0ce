"""Thrift's compact protocol, as much as a Parquet footer needs: integers are read and written, everything else is
skipped.

Nothing is decoded that is not needed: a footer is a few numbers that change and long byte segments that do not. Damaged
input makes positions run past the end, which raises IndexError; the reader of the file turns it into an error that
names the file.
"""

from __future__ import annotations

STOP = 0
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
_FIXED = {BYTE: 1, DOUBLE: 8, UUID: 16}


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer, and the position after it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def read_zigzag(data: bytes, at: int) -> tuple[int, int]:
    """A signed integer (zigzag), and the position after it."""
    value, at = read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def render_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def render_zigzag(value: int) -> bytes:
    """A signed integer in the compact protocol."""
    value = (value << 1) ^ (value >> 63)
    if value < 0x80:
        return _ONE_BYTE[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if value < 0x10000000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21))
    return render_varint(value)


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


def read_binary(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_varint(data, at)
    if at + size > len(data):
        raise IndexError
    return data[at : at + size], at + size


def render_binary(value: bytes) -> bytes:
    return render_varint(len(value)) + value


def render_list_header(kind: int, count: int) -> bytes:
    return bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + render_varint(count)


def read_list_header(data: bytes, at: int) -> tuple[int, int, int]:
    """The element type, the number of elements, and the position of the first."""
    head = data[at]
    at += 1
    count = head >> 4
    if count == 15:
        count, at = read_varint(data, at)
    if count > len(data):
        raise IndexError
    return head & 0x0F, count, at


def read_field(data: bytes, at: int, before: int) -> tuple[int, int, int]:
    """Type and id of the next field and the position of its value; type 0 ends the struct."""
    head = data[at]
    at += 1
    if head == STOP:
        return STOP, before, at
    delta = head >> 4
    if delta:
        return head & 0x0F, before + delta, at
    field, at = read_zigzag(data, at)
    return head & 0x0F, field, at


def skip(data: bytes, at: int, kind: int) -> int:
    """The position after a field's value."""
    if kind in (I16, I32, I64):
        while data[at] & 0x80:
            at += 1
        return at + 1
    if kind == BINARY:
        size, at = read_varint(data, at)
        return at + size
    if kind == STRUCT:
        return skip_struct(data, at)
    if kind in (TRUE, FALSE):
        return at
    if kind in (LIST, SET):
        return _skip_list(data, at)
    if kind == MAP:
        return _skip_map(data, at)
    if kind in _FIXED:
        return at + _FIXED[kind]
    raise IndexError


def skip_struct(data: bytes, at: int) -> int:
    """Most of a footer is skipped here, so the usual types are handled inline."""
    while True:
        head = data[at]
        at += 1
        if head == STOP:
            return at
        if head < 0x10:
            while data[at] & 0x80:
                at += 1
            at += 1
        kind = head & 0x0F
        if kind in (I16, I32, I64):
            while data[at] & 0x80:
                at += 1
            at += 1
        elif kind == BINARY and data[at] < 0x80:
            at += 1 + data[at]
        elif kind > FALSE:
            at = skip(data, at, kind)


def _skip_list(data: bytes, at: int) -> int:
    kind, count, at = read_list_header(data, at)
    if kind in (I16, I32, I64):
        for _ in range(count):
            while data[at] & 0x80:
                at += 1
            at += 1
        return at
    if kind == STRUCT:
        for _ in range(count):
            at = skip_struct(data, at)
        return at
    for _ in range(count):
        at = _skip_element(data, at, kind)
    return at


def _skip_map(data: bytes, at: int) -> int:
    count, at = read_varint(data, at)
    if count == 0:
        return at
    if count > len(data):
        raise IndexError
    kinds = data[at]
    at += 1
    for _ in range(count):
        at = _skip_element(data, _skip_element(data, at, kinds >> 4), kinds & 0x0F)
    return at


def _skip_element(data: bytes, at: int, kind: int) -> int:
    """Inside lists and maps a boolean takes one byte; as a field it takes none."""
    return at + 1 if kind in (TRUE, FALSE) else skip(data, at, kind)
