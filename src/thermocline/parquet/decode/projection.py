"""Project the columns of a file to the table's schema, by field id: added, dropped, renamed, reordered, widened, at any
depth.

A projection is planned once per file schema. A column that needs no change is passed through.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from thermocline.errors import LakeInputUnreadable, RewriteUnsupported
from thermocline.parquet.values.lake_schema import FIELD_ID, LakeSchema, LakeSchemaField, default_scalar

Convert = Callable[[pa.Array], pa.Array]
FieldPath = tuple[int, ...]
_WIDER = {
    "int": (pa.types.is_integer, pa.types.is_integer),
    "float": (pa.types.is_floating, pa.types.is_floating),
    "decimal": (pa.types.is_decimal, pa.types.is_decimal),
    "date to time": (pa.types.is_date, pa.types.is_timestamp),
    "time": (pa.types.is_time, pa.types.is_time),
    "timestamp": (pa.types.is_timestamp, pa.types.is_timestamp),
    "date": (pa.types.is_date, pa.types.is_date),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Column:
    """A column of the output: from a column of the file, or a constant."""

    field: LakeSchemaField
    source: int
    convert: Convert | None
    constant: pa.Scalar | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projection:
    """How files of one schema become the table's. `columns` are the names to read."""

    file_schema: pa.Schema
    columns: tuple[str, ...]
    targets: tuple[_Column, ...]
    schema: pa.Schema

    def apply(self, batch: pa.RecordBatch, dictionaries: frozenset[str]) -> pa.RecordBatch:
        """The batch in the table's schema; columns named in `dictionaries` as dictionaries."""
        arrays, changed = [], False
        for column in self.targets:
            array = self._array(batch, column)
            if column.field.name in dictionaries:
                array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
                changed = True
            elif pa.types.is_dictionary(array.type):
                array = array.cast(column.field.kind)
            arrays.append(array)
        if not changed:
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        pairs = zip(self.schema, arrays, strict=True)
        return pa.RecordBatch.from_arrays(
            arrays, schema=pa.schema([field.with_type(array.type) for field, array in pairs])
        )

    def names_for(self, targets: frozenset[int]) -> list[str]:
        """The file's columns from which these columns of the table come; any one column where none does."""
        names = [
            self.file_schema.field(self.targets[number].source).name
            for number in sorted(targets)
            if self.targets[number].source >= 0
        ]
        return names or [self.columns[0]]

    def apply_some(self, batch: pa.RecordBatch, targets: frozenset[int]) -> pa.RecordBatch:
        """The batch in the table's schema; all columns except these are NULL, without a type."""
        arrays = []
        for number, column in enumerate(self.targets):
            array = self._array(batch, column) if number in targets else pa.nulls(batch.num_rows)
            arrays.append(array.cast(column.field.kind) if pa.types.is_dictionary(array.type) else array)
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.names)

    def _array(self, batch: pa.RecordBatch, column: _Column) -> pa.Array:
        if column.constant is not None:
            return constant_array(column.constant, batch.num_rows)
        array = batch.column(batch.schema.get_field_index(self.file_schema.field(column.source).name))
        return array if column.convert is None else column.convert(array)


def plan_projection(
    file_schema: pa.Schema,
    lake: LakeSchema,
    partition_values: Mapping[int, object],
    path: str,
    also: Sequence[int] = (),
) -> Projection:
    """Plan how files with this schema, whose fields carry ids, are read. `also` are further field ids that equality
    deletes need."""
    if len(set(file_schema.names)) < len(file_schema.names):
        raise RewriteUnsupported(f"Lake file {path} has two columns of one name.")
    by_id = {field_id_of(field): number for number, field in enumerate(file_schema)}
    targets = []
    for field in lake.fields:
        source = by_id.get(field.field_id)
        if source is None:
            value = partition_values.get(field.field_id, field.initial_default)
            targets.append(_Column(field=field, source=-1, convert=None, constant=default_scalar(value, field.kind)))
        else:
            targets.append(
                _Column(
                    field=field,
                    source=source,
                    convert=_converter(file_schema.field(source), field, path),
                    constant=None,
                )
            )
    used = {column.source for column in targets if column.source >= 0}
    used |= {found[0] for number in also if (found := find_field(file_schema, number))}
    names = tuple(file_schema.field(number).name for number in sorted(used or {0}))
    return Projection(file_schema=file_schema, columns=names, targets=tuple(targets), schema=lake.arrow())


def field_id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def find_field(schema: pa.Schema, field_id: int) -> FieldPath:
    """The path to a field by id, through structs only; empty when it is not there."""
    for number, field in enumerate(schema):
        if found := _find_below(field, field_id):
            return (number, *found[1:])
    return ()


def _find_below(field: pa.Field, field_id: int) -> FieldPath:
    if field_id_of(field) == field_id:
        return (0,)
    if pa.types.is_struct(field.type):
        for number in range(field.type.num_fields):
            if found := _find_below(field.type.field(number), field_id):
                return (0, number, *found[1:])
    return ()


def value_at(array: pa.Array, path: FieldPath) -> pa.Array:
    """The values at the end of a path below a column; NULL where a struct on the path is NULL."""
    for number in path:
        array = pc.struct_field(array, [number])
    return array


def constant_array(value: pa.Scalar, length: int) -> pa.Array:
    if not value.is_valid:
        return pa.nulls(length, value.type)
    if isinstance(value.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(value.type, pa.repeat(value.value, length))
    return pa.repeat(value, length)


def _converter(source: pa.Field, target: LakeSchemaField, path: str) -> Convert | None:
    """The function that converts the file's column to the table's; None when they are equal."""
    kind = source.type
    if pa.types.is_dictionary(kind) and _same(kind.value_type, target.kind):
        return None
    if _same(kind, target.kind):
        return None
    if pa.types.is_struct(target.kind) and pa.types.is_struct(kind):
        return _struct_converter(kind, target, path)
    if pa.types.is_list(target.kind) and _is_list(kind):
        return _list_converter(kind, target, path)
    if pa.types.is_map(target.kind) and pa.types.is_map(kind):
        return _map_converter(kind, target, path)
    return _primitive_converter(kind, target, path)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _same(kind: pa.DataType, target: pa.DataType) -> bool:
    """Whether types and field ids are equal at every depth, in the same order."""
    return bool(
        kind == target
        and (not pa.types.is_nested(kind) or pa.field("x", kind).equals(pa.field("x", target), check_metadata=True))
    )


def _struct_converter(kind: pa.DataType, target: LakeSchemaField, path: str) -> Convert:
    by_id = {field_id_of(kind.field(number)): number for number in range(kind.num_fields)}
    parts: list[tuple[int, Convert | None, pa.Scalar | None]] = []
    for child in target.children:
        number = by_id.get(child.field_id)
        if number is None:
            parts.append((-1, None, default_scalar(child.initial_default, child.kind)))
        else:
            parts.append((number, _converter(kind.field(number), child, path), None))
    fields = [child.arrow() for child in target.children]

    def convert(array: pa.StructArray) -> pa.Array:
        children = []
        for number, inner, constant in parts:
            found = constant_array(constant, len(array)) if constant is not None else array.field(number)
            children.append(found if inner is None else inner(found))
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())

    return convert


def _list_converter(kind: pa.DataType, target: LakeSchemaField, path: str) -> Convert:
    inner = _converter(kind.value_field, target.children[0], path)

    def convert(array: pa.Array) -> pa.Array:
        if pa.types.is_large_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        values = array.values if inner is None else inner(array.values)
        validity, offsets = array.buffers()[:2]
        return pa.Array.from_buffers(
            target.kind, len(array), [validity, offsets], array.null_count, array.offset, [values]
        )

    return convert


def _map_converter(kind: pa.DataType, target: LakeSchemaField, path: str) -> Convert:
    key_inner = _converter(kind.key_field, target.children[0], path)
    value_inner = _converter(kind.item_field, target.children[1], path)
    fields = [child.arrow() for child in target.children]

    def convert(array: pa.MapArray) -> pa.Array:
        keys = array.keys if key_inner is None else key_inner(array.keys)
        values = array.items if value_inner is None else value_inner(array.items)
        entries = pa.StructArray.from_arrays([keys, values], fields=fields)
        validity, offsets = array.buffers()[:2]
        return pa.Array.from_buffers(
            target.kind, len(array), [validity, offsets], array.null_count, array.offset, [entries]
        )

    return convert


def _primitive_converter(kind: pa.DataType, target: LakeSchemaField, path: str) -> Convert:
    bare = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    bare = bare.value_type if pa.types.is_dictionary(bare) else bare
    if not _may_become(bare, target.kind):
        raise RewriteUnsupported(
            f"Lake file {path}: column {target.name} is {kind}, which does not become {target.kind}."
        )

    def convert(array: pa.Array) -> pa.Array:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        try:
            if isinstance(target.kind, pa.BaseExtensionType):
                return pa.ExtensionArray.from_storage(target.kind, array.cast(target.kind.storage_type))
            return array.cast(target.kind)
        except pa.ArrowInvalid as problem:
            raise LakeInputUnreadable(
                f"Lake file {path}: a value of column {target.name} does not fit {target.kind}: {problem}."
            ) from problem

    return convert


def _may_become(kind: pa.DataType, target: pa.DataType) -> bool:
    if kind == target or any(was(kind) and becomes(target) for was, becomes in _WIDER.values()):
        return True
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    blobs = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    if pa.types.is_string(target):
        return any(check(kind) for check in (*texts, *blobs[:3]))
    if isinstance(target, pa.BaseExtensionType):
        return bool(pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16)
    if pa.types.is_binary(target) or pa.types.is_fixed_size_binary(target):
        return any(check(kind) for check in blobs)
    return bool(pa.types.is_null(kind))


def with_mapped_ids(schema: pa.Schema, mapping: str | None, path: str) -> pa.Schema:
    """The schema of a file without field ids, its ids taken from the table's name mapping."""
    if any(field_id_of(field) is not None for field in schema):
        return schema
    if mapping is None:
        raise RewriteUnsupported(f"Lake file {path} has no field ids, and the table has no name mapping.")
    entries = json.loads(mapping)
    return pa.schema([_mapped(field, entries) for field in schema])


def _mapped(field: pa.Field, entries: Sequence[Mapping[str, Any]]) -> pa.Field:
    found = next((entry for entry in entries if field.name in entry["names"]), {})
    below = found.get("fields", ())
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_mapped(kind.field(number), below) for number in range(kind.num_fields)])
    elif _is_list(kind):
        kind = pa.list_(_mapped(kind.value_field.with_name("element"), below))
    elif pa.types.is_map(kind):
        kind = pa.map_(
            _mapped(kind.key_field.with_name("key"), below), _mapped(kind.item_field.with_name("value"), below)
        )
    mapped = pa.field(field.name, kind, field.nullable)
    return mapped.with_metadata({FIELD_ID: str(found["field-id"]).encode()}) if "field-id" in found else mapped
