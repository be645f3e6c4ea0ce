"""The metrics mode of each column: the properties `write.metadata.metrics.*` as Iceberg interprets them, and at least
truncated bounds for key, sort and partition columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_PREFIX = "write.metadata.metrics."
_TRUNCATE = re.compile(r"truncate\((\d+)\)")
_DEFAULT_LENGTH = 16
_DEFAULT_COLUMNS = 100
_ORDERED = re.compile(r"identity|truncate\[\d+\]|year|month|day|hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsMode:
    """`length` is how many characters of text and bytes of binary a bound keeps; None: all."""

    counts: bool
    bounds: bool
    length: int | None = None


NO_METRICS = MetricsMode(counts=False, bounds=False)
FULL = MetricsMode(counts=True, bounds=True)
TRUNCATED = MetricsMode(counts=True, bounds=True, length=_DEFAULT_LENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLeaf:
    """A column that holds values: its Iceberg type in text, its full name, and whether it lies within a list or a
    map."""

    field_id: int
    name: str
    kind: str
    is_repeated: bool = False


def schema_leaves(schema: Mapping[str, Any]) -> Iterator[SchemaLeaf]:
    """The columns of values of a schema in Iceberg's JSON, in their order."""
    for field in schema["fields"]:
        yield from _leaves(field["id"], field["name"], field["type"], repeated=False)


def _leaves(field_id: int, name: str, kind: Any, *, repeated: bool) -> Iterator[SchemaLeaf]:
    if isinstance(kind, str):
        yield SchemaLeaf(field_id=field_id, name=name, kind=kind, is_repeated=repeated)
    elif kind["type"] == "struct":
        for child in kind["fields"]:
            yield from _leaves(child["id"], f"{name}.{child['name']}", child["type"], repeated=repeated)
    elif kind["type"] == "list":
        yield from _leaves(kind["element-id"], f"{name}.element", kind["element"], repeated=True)
    elif kind["type"] == "map":
        yield from _leaves(kind["key-id"], f"{name}.key", kind["key"], repeated=True)
        yield from _leaves(kind["value-id"], f"{name}.value", kind["value"], repeated=True)


def current_schema(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The current schema in a table's metadata; metadata of format version 1 may hold only that one."""
    schemas = {schema["schema-id"]: schema for schema in metadata.get("schemas", ())}
    found: Mapping[str, Any] = schemas[metadata["current-schema-id"]] if schemas else metadata["schema"]
    return found


def plan_metrics_modes(metadata: Mapping[str, Any]) -> dict[int, MetricsMode]:
    """The metrics mode of each column by its field id, from a table's metadata."""
    properties: Mapping[str, str] = metadata.get("properties", {})
    leaves = list(schema_leaves(current_schema(metadata)))
    default = _parse(properties.get(f"{_PREFIX}default"))
    limit = (
        len(leaves)
        if default is not None
        else int(properties.get(f"{_PREFIX}max-inferred-column-defaults", _DEFAULT_COLUMNS))
    )
    modes = {leaf.field_id: (default or TRUNCATED) if at < limit else NO_METRICS for at, leaf in enumerate(leaves)}
    for field_id in (*_sort_columns(metadata), *_lookup_columns(metadata)):
        if field_id in modes and not modes[field_id].bounds:
            modes[field_id] = TRUNCATED
    for leaf in leaves:
        if (requested := _parse(properties.get(f"{_PREFIX}column.{leaf.name}"))) is not None:
            modes[leaf.field_id] = requested
    return modes


def _sort_columns(metadata: Mapping[str, Any]) -> Iterator[int]:
    for order in metadata.get("sort-orders", ()):
        if order["order-id"] == metadata.get("default-sort-order-id"):
            yield from (int(field["source-id"]) for field in order["fields"] if _ORDERED.fullmatch(field["transform"]))


def _lookup_columns(metadata: Mapping[str, Any]) -> Iterator[int]:
    """The key and partition columns: folding and retention need their bounds, whatever their position."""
    yield from current_schema(metadata).get("identifier-field-ids", ())
    for spec in metadata.get("partition-specs", ()):
        yield from (int(part["source-id"]) for part in spec["fields"] if part["transform"] != "void")


def _parse(text: str | None) -> MetricsMode | None:
    """None where the property is absent or unknown to Iceberg, which then uses its default."""
    match (text or "").strip().lower():
        case "none":
            return NO_METRICS
        case "counts":
            return MetricsMode(counts=True, bounds=False)
        case "full":
            return FULL
        case text if found := _TRUNCATE.fullmatch(text):
            return MetricsMode(counts=True, bounds=True, length=int(found[1])) if int(found[1]) > 0 else None
    return None
