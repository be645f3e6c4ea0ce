"""The leaf columns of a Parquet schema: physical type, nesting depth, and the order of their statistics."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

from thermocline.parquet.thrift import compact_protocol as thrift
from thermocline.parquet.thrift.structs import Fields, int_field, list_field, read_struct, render_struct, string_field


class PhysicalType(IntEnum):
    """Parquet's physical types."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class ValueOrder(Enum):
    """How two values in statistics compare. NONE: the order is unknown, so statistics cannot be merged."""

    UUID = "uuid"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOATING = "floating"
    BYTES = "bytes"
    BIG_ENDIAN = "big-endian"
    NONE = "none"


DISPUTED = frozenset((ValueOrder.FLOATING, ValueOrder.UUID))
"""Orders that readers disagree about: whether NaN is above all numbers, and whether UUIDs are signed (decisions 0027
and 0031).

Bounds of such a column make some reader skip rows that match, so our files have none.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A leaf column. The pages of two equal leaves are interchangeable."""

    kind: int
    length: int
    """The length of a fixed-length value, in bytes."""
    definitions: int
    repetitions: int
    order: ValueOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A top-level column: one leaf or, when nested, several. `elements` are its schema elements, as written."""

    name: str
    leaves: tuple[Leaf, ...]
    first_leaf: int
    elements: tuple[bytes, ...]


_CONVERTED: Mapping[int, ValueOrder] = {
    **dict.fromkeys((0, 4, 19, 20), ValueOrder.BYTES),
    5: ValueOrder.BIG_ENDIAN,
    **dict.fromkeys((6, 7, 8, 9, 10, 15, 16, 17, 18), ValueOrder.SIGNED),
    **dict.fromkeys((11, 12, 13, 14), ValueOrder.UNSIGNED),
}
_LOGICAL: Mapping[int, ValueOrder] = {
    **dict.fromkeys((1, 4, 12, 13), ValueOrder.BYTES),
    5: ValueOrder.BIG_ENDIAN,
    **dict.fromkeys((6, 7, 8), ValueOrder.SIGNED),
    14: ValueOrder.UUID,
    15: ValueOrder.FLOATING,
}
_LOGICAL_INTEGER = 10
_BARE: Mapping[int, ValueOrder] = {
    PhysicalType.BOOLEAN: ValueOrder.UNSIGNED,
    PhysicalType.INT32: ValueOrder.SIGNED,
    PhysicalType.INT64: ValueOrder.SIGNED,
    PhysicalType.FLOAT: ValueOrder.FLOATING,
    PhysicalType.DOUBLE: ValueOrder.FLOATING,
    PhysicalType.BYTE_ARRAY: ValueOrder.BYTES,
    PhysicalType.FIXED_LEN_BYTE_ARRAY: ValueOrder.BYTES,
}
_WHOLE = (PhysicalType.INT32, PhysicalType.INT64)
_REPEATED, _REQUIRED = 2, 0


def read_columns(schema: bytes) -> tuple[Column, ...]:
    """The top-level columns, from the list of schema elements in a footer."""
    _, count, at = thrift.read_list_header(schema, 0)
    elements: list[tuple[Fields, bytes]] = []
    for _ in range(count):
        fields, after = read_struct(schema, at)
        elements.append((fields, schema[at:after]))
        at = after
    found, index, leaves = [], 1, 0
    while index < count:
        below: list[Leaf] = []
        after_column = _walk(elements, index, 0, 0, below)
        name = elements[index][0][4].decode(errors="replace")
        raw = tuple(raw for _, raw in elements[index:after_column])
        found.append(Column(name=name, leaves=tuple(below), first_leaf=leaves, elements=raw))
        index, leaves = after_column, leaves + len(below)
    return tuple(found)


def _walk(
    elements: list[tuple[Fields, bytes]], index: int, definitions: int, repetitions: int, found: list[Leaf]
) -> int:
    """Collect the leaves of an element; returns the index of the next element."""
    element = elements[index][0]
    repetition = element.get(3, _REQUIRED)
    definitions += repetition != _REQUIRED
    repetitions += repetition == _REPEATED
    index += 1
    children = element.get(5, 0)
    if not children:
        kind = element[1]
        found.append(
            Leaf(
                kind=kind,
                length=element.get(2, 0),
                definitions=definitions,
                repetitions=repetitions,
                order=_order(element, kind),
            )
        )
    for _ in range(children):
        index = _walk(elements, index, definitions, repetitions, found)
    return index


def _order(element: Fields, kind: int) -> ValueOrder:
    logical, converted = element.get(10), element.get(6)
    order = _BARE.get(kind, ValueOrder.NONE)
    if logical:
        which = next(iter(logical))
        order = _LOGICAL.get(which, ValueOrder.NONE)
        if which == _LOGICAL_INTEGER:
            order = ValueOrder.SIGNED if logical[which].get(2, True) else ValueOrder.UNSIGNED
    elif converted is not None:
        order = _CONVERTED.get(converted, ValueOrder.NONE)
    if order is ValueOrder.BIG_ENDIAN and kind in _WHOLE:
        return ValueOrder.SIGNED
    fits = {
        ValueOrder.SIGNED: _WHOLE,
        ValueOrder.BYTES: (PhysicalType.BYTE_ARRAY, PhysicalType.FIXED_LEN_BYTE_ARRAY),
    }.get(order)
    return order if fits is None or kind in fits else ValueOrder.NONE


def render_schema(column: Column) -> bytes:
    """The schema of a file with this column alone."""
    root = render_struct([string_field(4, b"schema"), int_field(5, 1, thrift.I32)])
    return list_field(1, thrift.STRUCT, [root, *column.elements])[2]


def statistics_decoder(leaf: Leaf) -> Callable[[bytes], int | float | bytes]:
    """The function that decodes a value in statistics so that it compares. It raises ValueError or struct.error for
    invalid bytes."""
    if leaf.order is ValueOrder.SIGNED:
        return lambda value: int.from_bytes(value, "little", signed=True)
    if leaf.order is ValueOrder.UNSIGNED:
        return lambda value: int.from_bytes(value, "little")
    if leaf.order is ValueOrder.BIG_ENDIAN:
        return lambda value: int.from_bytes(value, "big", signed=True)
    if leaf.order is ValueOrder.FLOATING:
        form = {PhysicalType.FLOAT: "<f", PhysicalType.DOUBLE: "<d"}.get(PhysicalType(leaf.kind), "<e")
        return lambda value: float(struct.unpack(form, value)[0])
    return lambda value: value
