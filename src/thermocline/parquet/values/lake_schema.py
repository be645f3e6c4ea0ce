"""The table's schema: from Iceberg's JSON to Arrow with field ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thermocline.core.types import parse_lake_type
from thermocline.errors import RewriteUnsupported
from thermocline.parquet.values.arrow_types import arrow_of_primitive

FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LakeSchemaField:
    """A field of the schema. `children` are a struct's fields, a list's element, or a map's key and value."""

    field_id: int
    name: str
    kind: pa.DataType
    required: bool
    children: tuple[LakeSchemaField, ...] = ()
    initial_default: object = None

    def arrow(self) -> pa.Field:
        return pa.field(self.name, self.kind, not self.required, metadata={FIELD_ID: str(self.field_id).encode()})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LakeSchema:
    """The fields of a schema, and its JSON."""

    fields: tuple[LakeSchemaField, ...]
    text: str

    def arrow(self) -> pa.Schema:
        return pa.schema([field.arrow() for field in self.fields])

    def find(self, field_id: int) -> LakeSchemaField | None:
        """A field by its id, at any depth."""
        return next((field for field in _all_fields(self.fields) if field.field_id == field_id), None)


def read_lake_schema(text: str) -> LakeSchema:
    """Parse the schema from Iceberg's JSON."""
    return LakeSchema(fields=tuple(_field(entry) for entry in _stored(json.loads(text)["fields"])), text=text)


def _stored(entries: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The fields that files contain. A field of type `unknown` is NULL in all rows and absent from files."""
    return (entry for entry in entries if entry["type"] != "unknown")


def _all_fields(fields: tuple[LakeSchemaField, ...]) -> Iterator[LakeSchemaField]:
    for field in fields:
        yield field
        yield from _all_fields(field.children)


def _field(entry: Mapping[str, Any]) -> LakeSchemaField:
    return _made(entry["id"], entry["name"], entry["type"], entry["required"], entry.get("initial-default"))


def _made(number: int, name: str, kind: Any, required: bool, default: object = None) -> LakeSchemaField:
    children: tuple[LakeSchemaField, ...] = ()
    if isinstance(kind, str):
        return LakeSchemaField(
            field_id=number, name=name, kind=_primitive(kind, name), required=required, initial_default=default
        )
    if kind["type"] == "struct":
        children = tuple(_field(entry) for entry in _stored(kind["fields"]))
        if not children:
            raise RewriteUnsupported(f"Column {name} is a struct without a field that a file could hold.")
        arrow: pa.DataType = pa.struct([child.arrow() for child in children])
    elif kind["type"] == "list":
        children = (_made(kind["element-id"], "element", kind["element"], kind["element-required"]),)
        arrow = pa.list_(children[0].arrow())
    elif kind["type"] == "map":
        value = _made(kind["value-id"], "value", kind["value"], kind["value-required"])
        children = (_made(kind["key-id"], "key", kind["key"], True), value)
        arrow = pa.map_(children[0].arrow(), children[1].arrow())
    else:
        raise RewriteUnsupported(f"Column {name} has type {kind['type']}, which this kernel does not write.")
    return LakeSchemaField(
        field_id=number, name=name, kind=arrow, required=required, children=children, initial_default=default
    )


def _primitive(text: str, column: str) -> pa.DataType:
    if (found := parse_lake_type(text)) is None:
        raise RewriteUnsupported(f"Column {column} has type {text}, which this kernel does not write.")
    return arrow_of_primitive(found)


def default_scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    """A constant from Iceberg's JSON single-value serialisation."""
    if value is None:
        return pa.scalar(None, kind)
    if kind == pa.uuid():
        return pa.scalar(bytes.fromhex(str(value).replace("-", "")), kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.scalar(bytes.fromhex(str(value)), kind)
    if isinstance(value, str) and not pa.types.is_string(kind):
        return pa.scalar(value).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.scalar(str(value)).cast(kind)
    if isinstance(value, int) and (pa.types.is_temporal(kind)):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.scalar(value, whole).cast(kind)
    return pa.scalar(value, kind)
