"""The metrics of a Parquet file for its manifest entry: counts, sizes and bounds. Every writer of lake files uses this
module.

Rule: a column has bounds only if every chunk with a value has statistics. A chunk without statistics says nothing
(Arrow and parquet-java write none for values above 4,096 bytes, DuckDB none where there is NaN), and bounds made from
the other chunks alone would hide its rows from every reader. NaN is not a bound. NaN sorts above all numbers in SQL, so
a float column has an upper bound only where it is known to contain no NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thermocline.core.column_bounds import (
    Value,
    decode_bound,
    lower_bound,
    union,
    upper_bound,
    uuid_ends,
)
from thermocline.core.metrics_modes import FULL, NO_METRICS, MetricsMode, schema_leaves
from thermocline.core.types import PrimitiveType, parse_lake_type
from thermocline.runtime.file_io import open_location

_FIELD_ID = b"PARQUET:field_id"
_UNITS = {
    "us": {"microseconds": 1, "milliseconds": 1_000},
    "ns": {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000},
}
"""Factors from each Parquet time unit to each time unit of the lake."""

KnownEnds = tuple[Value | None, Value | None]
"""The lowest and the highest value of a column, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetrics:
    """The metrics of one file, by field id, for its manifest entry."""

    rows: int
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ColumnFacts:
    """The footer's statistics of a column over all row groups. `ends` are the bounds of the chunks that have
    statistics."""

    kind: PrimitiveType | None
    is_repeated: bool = False
    size_bytes: int = 0
    values: int = 0
    nulls: int | None = 0
    ends: tuple[Value, Value] | None = None
    silent: int = 0
    """The number of chunks that may hold values and have no bounds."""

    @property
    def vouched(self) -> bool:
        """Whether `ends` cover every value except NaN; true for a column without values."""
        return not self.silent


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFacts:
    """The parts of a file's footer that manifests record; columns by field id."""

    rows: int
    size_bytes: int
    split_offsets: tuple[int, ...]
    columns: Mapping[int, ColumnFacts]


def read_footer_facts(path: str, schema: Mapping[str, Any]) -> FooterFacts:
    """Read the footer of a lake file, by the columns of a schema in Iceberg's JSON."""
    filesystem, inner = open_location(path)
    with filesystem.open_input_file(inner) as source:
        return footer_facts(pq.read_metadata(source), schema, int(source.size()))


def footer_facts(metadata: pq.FileMetaData, schema: Mapping[str, Any], size_bytes: int = 0) -> FooterFacts:
    """The facts of a footer that was already read."""
    wanted = {leaf.field_id: leaf for leaf in schema_leaves(schema)}
    leaves = {leaf: field_id for leaf, field_id in enumerate(leaf_field_ids(metadata)) if field_id in wanted}
    columns = {
        field_id: ColumnFacts(kind=parse_lake_type(wanted[field_id].kind), is_repeated=wanted[field_id].is_repeated)
        for field_id in leaves.values()
    }
    scales = {leaf: _scale(metadata.schema.column(leaf), columns[field_id].kind) for leaf, field_id in leaves.items()}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for leaf, field_id in leaves.items():
            _add_chunk(columns[field_id], group.column(leaf), scales[leaf])
    return FooterFacts(
        rows=metadata.num_rows,
        size_bytes=size_bytes,
        split_offsets=tuple(group_offset(metadata.row_group(number)) for number in range(metadata.num_row_groups)),
        columns=columns,
    )


def group_offset(group: pq.RowGroupMetaData) -> int:
    """The offset of a row group."""
    first = group.column(0)
    return int(first.dictionary_page_offset or first.data_page_offset)


def leaf_field_ids(metadata: pq.FileMetaData) -> list[int]:
    """The field id of each leaf column, in the footer's order; -1 where it has none."""
    return [field_id for column in metadata.schema.to_arrow_schema() for field_id in _ids(column)]


def _ids(column: pa.Field) -> Iterator[int]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_map(kind):
        children = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        children = [kind.value_field]
    elif pa.types.is_struct(kind):
        children = [kind.field(at) for at in range(kind.num_fields)]
    else:
        yield int((column.metadata or {}).get(_FIELD_ID, b"-1"))
        return
    for child in children:
        yield from _ids(child)


def _add_chunk(column: ColumnFacts, chunk: pq.ColumnChunkMetaData, scale: int) -> None:
    column.size_bytes += chunk.total_compressed_size
    column.values += chunk.num_values
    if not chunk.num_values:
        return
    statistics = chunk.statistics
    nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
    column.nulls = None if nulls is None or column.nulls is None else column.nulls + nulls
    if nulls == chunk.num_values:
        return
    ends = _chunk_ends(statistics, column.kind, scale) if statistics is not None and column.kind is not None else None
    if ends is None:
        column.silent += 1
    else:
        column.ends = union(column.ends, ends)


def _chunk_ends(statistics: pq.Statistics, kind: PrimitiveType, scale: int) -> tuple[Value, Value] | None:
    """The lowest and highest value of a chunk; None where it has no statistics. `scale` 0: its statistics cannot be
    interpreted."""
    if not scale or not statistics.has_min_max:
        return None
    low, high = (_value(kind, raw, scale) for raw in (statistics.min_raw, statistics.max_raw))
    if low is None or high is None or low > high:  # type: ignore[operator]  # both of one kind
        return None
    return low, high


def _value(kind: PrimitiveType, raw: Any, scale: int) -> Value | None:
    if kind.declared.storage == "decimal" and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if isinstance(raw, float):
        return None if math.isnan(raw) else raw
    return raw if isinstance(raw, bytes) else int(raw) * scale


def _scale(column: pq.ParquetColumnSchema, kind: PrimitiveType | None) -> int:
    """The factor from a number in the statistics to the lake's type; 0 where the lake's type is never read from the
    file's."""
    annotation: dict[str, Any] = json.loads(column.logical_type.to_json())
    logical, physical = str(annotation["Type"]), column.physical_type
    if kind is None:
        return 0
    match kind.declared.text_form:
        case "boolean":
            return int(physical == "BOOLEAN")
        case "integer":
            signed = logical == "None" or (logical == "Int" and bool(annotation["isSigned"]))
            return int(signed and (physical == "INT32" or (kind.declared.storage == "int8" and physical == "INT64")))
        case "float":
            wide = kind.declared.storage == "float8" and physical == "DOUBLE"
            return int(logical == "None" and (physical == "FLOAT" or wide))
        case "date":
            return int(physical == "INT32" and logical in ("Date", "None"))
        case "time":
            return _UNITS["us"].get(annotation["timeUnit"], 0) if logical == "Time" else 0
        case "timestamp" | "timestamptz":
            units = _UNITS[kind.declared.arrow[1]]
            return units.get(annotation["timeUnit"], 0) if logical == "Timestamp" and physical == "INT64" else 0
        case "decimal":
            return int(logical == "Decimal" and int(annotation["scale"]) == kind.scale)
        case "plain":
            return int(physical == "BYTE_ARRAY" and logical in ("String", "Enum", "JSON", "None"))
        case "hex" if not kind.length:
            return int(physical == "BYTE_ARRAY" and logical != "Decimal")
        case "hex" | "uuid":
            return int(
                physical == "FIXED_LEN_BYTE_ARRAY"
                and column.length == kind.length
                and logical not in ("Decimal", "Float16", "Interval")
            )
    return 0


_POSITION_DELETES = {
    "fields": [
        {"id": 2_147_483_546, "name": "file_path", "type": "string"},
        {"id": 2_147_483_545, "name": "pos", "type": "long"},
    ]
}


def position_delete_metrics(path: str) -> FileMetrics:
    """Metrics of a position delete file. Its bounds are not truncated, so that a reader can identify its only data
    file."""
    facts = read_footer_facts(path, _POSITION_DELETES)
    return plan_metrics(facts, dict.fromkeys(facts.columns, FULL))


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInput:
    """A file whose row groups were copied: its footer, and its bounds in the manifest."""

    facts: FooterFacts
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]


def fields_without_bounds(facts: FooterFacts) -> tuple[int, ...]:
    """Columns whose statistics do not cover all of their values."""
    return tuple(
        field_id
        for field_id, column in facts.columns.items()
        if not column.vouched and not column.is_repeated and column.kind
    )


def merge_input_bounds(inputs: Sequence[CopiedInput], field_ids: Iterable[int]) -> dict[int, KnownEnds]:
    """Bounds of columns in a file that holds exactly the rows of these inputs.

    An input's manifest bounds are used where none of its chunks has statistics: its writer knew the values. Where some
    chunks have statistics and others do not, the manifest may cover only the former, as in files of every program that
    derives manifests from footers.
    """
    found: dict[int, KnownEnds] = {}
    for field_id in field_ids:
        ranges = [ends for one in inputs if (ends := _input_ends(one, field_id)) is not None]
        low, high = (
            (None if None in side else sorted(side) for side in zip(*ranges, strict=True)) if ranges else (None, None)
        )
        found[field_id] = (low[0] if low else None, high[-1] if high else None)
    return found


def _input_ends(one: CopiedInput, field_id: int) -> KnownEnds | None:
    """None for an input without a value of the column."""
    column = one.facts.columns.get(field_id)
    if column is None or column.kind is None:
        return None, None
    if column.vouched:
        return column.ends
    if column.ends is not None:
        return None, None
    low, high = (side.get(field_id) for side in (one.lower, one.upper))
    kind = column.kind
    return (
        decode_bound(kind, low) if low is not None else None,
        decode_bound(kind, high) if high is not None else None,
    )


def plan_metrics(
    facts: FooterFacts,
    modes: Mapping[int, MetricsMode],
    nan_counts: Mapping[int, int] | None = None,
    known: Mapping[int, KnownEnds] | None = None,
) -> FileMetrics:
    """A file's metrics. `nan_counts` are counts of NaN where the writer counted them; `known` are bounds that the
    writer knows although the statistics do not cover the column."""
    wanted_modes = {field_id: modes.get(field_id, NO_METRICS) for field_id in facts.columns}
    counted = {field_id: facts.columns[field_id] for field_id, mode in wanted_modes.items() if mode.counts}
    flat = {field_id: column for field_id, column in counted.items() if not column.is_repeated}
    nans = {field_id: count for field_id, count in (nan_counts or {}).items() if field_id in flat}
    lower, upper = {}, {}
    for field_id, column in flat.items():
        low, high = (column.ends if column.vouched else (known or {}).get(field_id)) or (None, None)
        if not wanted_modes[field_id].bounds or column.kind is None:
            continue
        if column.kind.declared.storage == "uuid":
            low, high = uuid_ends(low, high)
        if low is not None:
            lower[field_id] = lower_bound(column.kind, low, wanted_modes[field_id].length)
        if high is not None and (not column.kind.declared.is_float or nans.get(field_id) == 0):
            upper[field_id] = upper_bound(column.kind, high, wanted_modes[field_id].length)
    return FileMetrics(
        rows=facts.rows,
        column_sizes={field_id: column.size_bytes for field_id, column in counted.items()},
        value_counts={field_id: column.values for field_id, column in flat.items()},
        null_counts={field_id: column.nulls for field_id, column in flat.items() if column.nulls is not None},
        # Iceberg treats a column of NaN only as one that no comparison matches, while in SQL NaN is above every
        # number.
        nan_counts={field_id: count for field_id, count in nans.items() if not count or count < flat[field_id].values},
        lower={field_id: bound for field_id, bound in lower.items() if bound is not None},
        upper={field_id: bound for field_id, bound in upper.items() if bound is not None},
    )
