"""Check that a Parquet file stores the table's columns as Iceberg specifies: field ids at every depth, physical and
logical types.

The footer itself is read: Arrow may take its types from a schema of its own that the writer stored in the footer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from thermocline.parquet.footer.leaf_columns import PhysicalType
from thermocline.parquet.thrift import compact_protocol as thrift
from thermocline.parquet.thrift.structs import Fields, read_struct
from thermocline.parquet.values.lake_schema import LakeSchema, LakeSchemaField

_REPEATED = 2
_STRING, _MAP, _LIST, _DECIMAL, _DATE, _TIME, _TIMESTAMP, _INTEGER, _UUID = 1, 2, 3, 5, 6, 7, 8, 10, 14
_LOGICAL_NAMES = {
    _STRING: "string",
    _MAP: "map",
    _LIST: "list",
    4: "enum",
    _DECIMAL: "decimal",
    _DATE: "date",
    _TIME: "time",
    _TIMESTAMP: "timestamp",
    _INTEGER: "integer",
    11: "null",
    12: "json",
    13: "bson",
    _UUID: "uuid",
    15: "float16",
}
_UNITS = {1: "ms", 2: "us", 3: "ns"}
_BARE_INTEGERS = {PhysicalType.INT32: 32, PhysicalType.INT64: 64}
_CONVERTED = {
    0: _STRING,
    1: _MAP,
    2: _MAP,
    3: _LIST,
    5: _DECIMAL,
    6: _DATE,
    8: _TIME,
    10: _TIMESTAMP,
    17: _INTEGER,
    18: _INTEGER,
}
"""Converted types of older writers as logical types, except milliseconds and unsigned numbers."""
_PLAIN_KINDS: tuple[tuple[Callable[[pa.DataType], bool], PhysicalType], ...] = (
    (pa.types.is_boolean, PhysicalType.BOOLEAN),
    (pa.types.is_float32, PhysicalType.FLOAT),
    (pa.types.is_float64, PhysicalType.DOUBLE),
    (pa.types.is_binary, PhysicalType.BYTE_ARRAY),
)


@dataclass(frozen=True, slots=True)
class Element:
    """A schema element of a footer, with its children."""

    fields: Fields
    children: list[Element] = field(default_factory=list)

    @property
    def field_id(self) -> int | None:
        found: int | None = self.fields.get(9)
        return found

    @property
    def logical(self) -> tuple[int | None, Fields]:
        """Its logical type and parameters; older writers state a converted type instead."""
        if found := self.fields.get(10):
            logical = next(iter(found))
            return logical, found[logical]
        if (converted := self.fields.get(6)) is None:
            return None, {}
        logical = _CONVERTED.get(converted, -1)
        more: dict[int, Fields] = {
            _DECIMAL: {1: self.fields.get(7, 0), 2: self.fields.get(8, 0)},
            _TIME: {1: True, 2: {2: {}}},
            _TIMESTAMP: {1: True, 2: {2: {}}},
            _INTEGER: {1: 32 if converted == 17 else 64, 2: True},
        }
        return logical, more.get(logical, {})

    def render(self) -> str:
        """The element's type, for a message."""
        logical, parameters = self.logical
        name = _LOGICAL_NAMES.get(logical, "another annotation") if logical is not None else ""
        if logical == _DECIMAL:
            name = f"decimal({parameters.get(2)}, {parameters.get(1)})"
        elif logical in (_TIME, _TIMESTAMP):
            name += f"[{_UNITS.get(next(iter(parameters[2])), '?')}{', UTC' if parameters.get(1) else ''}]"
        elif logical == _INTEGER:
            name = f"{'' if parameters.get(2, True) else 'unsigned '}integer of {parameters.get(1)} bits"
        if "type" not in _kind(self):
            return name or "a group"
        length = f"({self.fields[2]})" if self.fields.get(2) else ""
        return f"{PhysicalType(self.fields[1]).name}{length}" + (f" {name}" if name else " without annotation")


def _kind(element: Element) -> str:
    return "type" if 1 in element.fields and not element.fields.get(5) else "group"


def read_elements(schema: bytes) -> Element:
    """The root of the list of schema elements in a footer."""
    _, count, at = thrift.read_list_header(schema, 0)
    flat: list[Fields] = []
    for _ in range(count):
        found, at = read_struct(schema, at)
        flat.append(found)
    remaining = iter(flat)

    def take() -> Element:
        made = Element(next(remaining))
        made.children.extend(take() for _ in range(made.fields.get(5, 0)))
        return made

    return take()


def find_differences(lake: LakeSchema, root: Element) -> Iterator[str]:
    """How a file's columns differ from the table's, one clause each; empty when readers find what they expect."""
    yield from _of_fields("", lake.fields, root.children)


def _of_fields(above: str, wanted: Sequence[LakeSchemaField], found: Sequence[Element]) -> Iterator[str]:
    ids = [element.field_id for element in found]
    by_id = dict(zip(ids, found, strict=True))
    for column in wanted:
        if ids.count(column.field_id) != 1:
            yield (
                f"column {above}{column.name} (field id {column.field_id}) is there {ids.count(column.field_id)} times"
            )
        else:
            yield from _of_field(above, column, by_id[column.field_id])
    known = {column.field_id for column in wanted}
    for element in found:
        if element.field_id not in known:
            yield f"{above}{_name(element)} has field id {element.field_id}, which is none of the table's there"


def _of_field(above: str, column: LakeSchemaField, element: Element) -> Iterator[str]:
    path = f"{above}{column.name}"
    if element.fields.get(3) == _REPEATED:
        yield f"column {path} is repeated, and no list that readers know"
    elif pa.types.is_struct(column.kind):
        if _kind(element) != "group" or element.logical[0] is not None:
            yield f"column {path} is {element.render()} instead of a struct"
        else:
            yield from _of_fields(f"{path}.", column.children, element.children)
    elif pa.types.is_list(column.kind) or pa.types.is_map(column.kind):
        yield from _of_repeated(path, column, element)
    elif (expected := _why_not_primitive(column.kind, element)) is not None:
        yield f"column {path} is {element.render()} instead of {expected}"


def _of_repeated(path: str, column: LakeSchemaField, element: Element) -> Iterator[str]:
    wanted, name = (_LIST, "list") if pa.types.is_list(column.kind) else (_MAP, "map")
    if element.logical[0] != wanted or len(element.children) != 1 or element.children[0].fields.get(3) != _REPEATED:
        yield f"column {path} is {element.render()} instead of a {name} of three levels"
        return
    inner = element.children[0].children
    if len(inner) != len(column.children):
        yield f"column {path} is a {name} without a level of its own for what is in it"
        return
    for child, found in zip(column.children, inner, strict=True):
        if found.field_id != child.field_id:
            yield f"the {child.name} of column {path} has field id {found.field_id} instead of {child.field_id}"
        else:
            yield from _of_field(f"{path}.", child, found)


def _why_not_primitive(kind: pa.DataType, element: Element) -> str | None:
    """The expected storage of the column, when the element has another; None where it matches."""
    if _kind(element) != "type":
        return str(kind)
    physical, length, (logical, parameters) = PhysicalType(element.fields[1]), element.fields.get(2, 0), element.logical
    return None if _is_stored(kind, physical, length, logical, parameters) else f"{kind}"


def _is_stored(kind: pa.DataType, physical: PhysicalType, length: int, logical: int | None, parameters: Fields) -> bool:
    for check, plain in _PLAIN_KINDS:
        if check(kind):
            return physical is plain and logical is None
    if pa.types.is_integer(kind):
        is_same = physical is (PhysicalType.INT32 if kind.bit_width == 32 else PhysicalType.INT64)
        return is_same and (
            logical is None
            or (logical == _INTEGER and parameters.get(1) == kind.bit_width and bool(parameters.get(2, True)))
        )
    if pa.types.is_string(kind):
        return physical is PhysicalType.BYTE_ARRAY and logical == _STRING
    if pa.types.is_date(kind):
        return physical is PhysicalType.INT32 and logical == _DATE
    if pa.types.is_time(kind):
        return physical is PhysicalType.INT64 and logical == _TIME and _unit(parameters) == kind.unit
    if pa.types.is_timestamp(kind):
        is_moment = bool(parameters.get(1)) == (kind.tz is not None)
        return physical is PhysicalType.INT64 and logical == _TIMESTAMP and _unit(parameters) == kind.unit and is_moment
    if pa.types.is_decimal(kind):
        return (
            logical == _DECIMAL
            and (parameters.get(2), parameters.get(1)) == (kind.precision, kind.scale)
            and _holds(physical, length, kind.precision)
        )
    if isinstance(kind, pa.BaseExtensionType):
        return physical is PhysicalType.FIXED_LEN_BYTE_ARRAY and length == 16 and logical == _UUID
    return physical is PhysicalType.FIXED_LEN_BYTE_ARRAY and length == kind.byte_width and logical is None


def _holds(physical: PhysicalType, length: int, digits: int) -> bool:
    """Whether decimals of this precision fit. Readers accept a narrower physical type."""
    if physical in _BARE_INTEGERS:
        return digits <= (9 if physical is PhysicalType.INT32 else 18)
    return physical is PhysicalType.FIXED_LEN_BYTE_ARRAY and 10**digits <= 1 << (8 * length - 1)


def _unit(parameters: Fields) -> str:
    return _UNITS.get(next(iter(parameters.get(2, {0: {}}))), "?")


def _name(element: Element) -> str:
    return str(element.fields[4].decode(errors="replace"))
