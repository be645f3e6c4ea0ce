"""Structs of Thrift's compact protocol, read into values and rendered, for parts of a Parquet footer that are
rebuilt."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from thermocline.parquet.thrift import compact_protocol as thrift

Fields = dict[int, Any]
"""A struct's values by field id: numbers, booleans, bytes, lists, and dictionaries for nested structs. Maps are
skipped."""
Part = tuple[int, int, bytes]
"""A field to write: its id, its type, its encoded value."""
_NUMBERS = frozenset((thrift.I16, thrift.I32, thrift.I64))


def read_struct(data: bytes, at: int = 0) -> tuple[Fields, int]:
    """Read a struct; returns it and the position after it."""
    found: Fields = {}
    field_id = 0
    while True:
        head = data[at]
        at += 1
        if head == thrift.STOP:
            return found, at
        if head > 0x0F:
            field_id += head >> 4
        else:
            field_id, at = thrift.read_zigzag(data, at)
        kind = head & 0x0F
        if kind in _NUMBERS:
            # Most of a footer is numbers of one byte, which are read inline.
            value = data[at]
            at += 1
            if value > 0x7F:
                value, at = thrift.read_varint(data, at - 1)
            found[field_id] = (value >> 1) ^ -(value & 1)
        elif kind in (thrift.TRUE, thrift.FALSE):
            found[field_id] = kind == thrift.TRUE
        else:
            found[field_id], at = _read_value(data, at, kind)


def _read_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == thrift.BINARY:
        return thrift.read_binary(data, at)
    if kind == thrift.STRUCT:
        return read_struct(data, at)
    if kind in (thrift.LIST, thrift.SET):
        return _read_list(data, at)
    if kind == thrift.BYTE:
        return data[at], at + 1
    if kind == thrift.DOUBLE:
        return struct.unpack_from("<d", data, at)[0], at + 8
    return None, thrift.skip(data, at, kind)


def _read_list(data: bytes, at: int) -> tuple[list[Any], int]:
    kind, count, at = thrift.read_list_header(data, at)
    found: list[Any] = []
    if kind in (thrift.TRUE, thrift.FALSE):
        return [value == thrift.TRUE for value in data[at : at + count]], at + count
    if kind in _NUMBERS:
        for _ in range(count):
            number, at = thrift.read_zigzag(data, at)
            found.append(number)
        return found, at
    for _ in range(count):
        value, at = _read_value(data, at, kind)
        found.append(value)
    return found, at


def render_struct(parts: Iterable[Part]) -> bytes:
    """Render a struct of these fields, which are in the order of their ids."""
    out: list[bytes] = []
    last = 0
    for field_id, kind, value in parts:
        out.append(bytes((field_id - last << 4 | kind,)))
        out.append(value)
        last = field_id
    out.append(b"\x00")
    return b"".join(out)


def int_field(field_id: int, value: int, kind: int = thrift.I64) -> Part:
    """A field with an integer."""
    return field_id, kind, thrift.render_zigzag(value)


def string_field(field_id: int, value: bytes) -> Part:
    return field_id, thrift.BINARY, thrift.render_binary(value)


def bool_field(field_id: int, value: bool) -> Part:
    return field_id, thrift.TRUE if value else thrift.FALSE, b""


def struct_field(field_id: int, value: bytes) -> Part:
    """A field with a struct that is already rendered."""
    return field_id, thrift.STRUCT, value


def list_field(field_id: int, kind: int, values: Sequence[bytes]) -> Part:
    """A field with a list of rendered values of one type."""
    return field_id, thrift.LIST, thrift.render_list_header(kind, len(values)) + b"".join(values)


def bool_list_field(field_id: int, values: Sequence[bool]) -> Part:
    return list_field(field_id, thrift.TRUE, [b"\x01" if value else b"\x02" for value in values])
