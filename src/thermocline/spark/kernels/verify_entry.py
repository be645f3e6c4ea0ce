"""Check the manifest entry of a data file against the file: size, rows, counts and bounds.

Where every chunk of a column has statistics, the footer is compared. Where one has none, and for NaN, which no footer
counts, the values are read in batches. Only what the manifest claims is checked. An entry is also wrong when it is true
but makes some reader skip rows: an upper bound where there is NaN, and bounds of UUIDs that hold in only one of two
orders (decision 0025).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thermocline.core.column_bounds import Value, decode_bound, union, uuid_ends
from thermocline.core.manifest_entry import EntryProblem, FileEntry
from thermocline.core.metrics_modes import MetricsMode, schema_leaves
from thermocline.core.types import PrimitiveType
from thermocline.parquet.footer.file_metrics import (
    ColumnFacts,
    FileMetrics,
    FooterFacts,
    footer_facts,
    leaf_field_ids,
    plan_metrics,
)
from thermocline.runtime.file_io import open_location

_BATCH_ROWS = 16_384
_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCheckTask:
    """Files to check, the table's schema in Iceberg's JSON, and its metrics modes."""

    number: int
    entries: tuple[FileEntry, ...]
    schema: Mapping[str, Any]
    modes: Mapping[int, MetricsMode]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectEntry:
    """What the manifest should say of a file."""

    path: str
    size_bytes: int
    split_offsets: tuple[int, ...]
    metrics: FileMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCheck:
    """A file whose entry is wrong; `right` is None where the file cannot be read."""

    problems: tuple[EntryProblem, ...]
    right: CorrectEntry | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """A column whose values were read."""

    ends: tuple[Value, Value] | None
    nans: int
    nulls: int


def check_entries(task: EntryCheckTask, attempt: int = 0) -> tuple[EntryCheck, ...]:
    """The entries that are wrong."""
    return tuple(check for entry in task.entries if (check := check_entry(entry, task.schema, task.modes)) is not None)


def check_entry(entry: FileEntry, schema: Mapping[str, Any], modes: Mapping[int, MetricsMode]) -> EntryCheck | None:
    """The problems of one entry; None where there are none."""
    try:
        filesystem, inner = open_location(entry.path)
        with filesystem.open_input_file(inner) as source:
            file = pq.ParquetFile(source)
            facts = footer_facts(file.metadata, schema, int(source.size()))
            read = {
                field_id: _read_column(file, field_id, facts.columns[field_id])
                for field_id in _fields_to_read(entry, facts)
            }
    except (OSError, pa.ArrowException) as problem:
        reason = (str(problem).strip().splitlines() or ["no reason given"])[0].rstrip(".")
        return EntryCheck(
            problems=(EntryProblem(path=entry.path, column=None, sentence=f"it cannot be read: {reason}"),), right=None
        )
    names = {leaf.field_id: leaf.name for leaf in schema_leaves(schema)}
    found = [EntryProblem(path=entry.path, column=None, sentence=sentence) for sentence in _check_file(entry, facts)]
    for field_id, column in facts.columns.items():
        if not column.is_repeated:
            sentences = _check_column(entry, field_id, column, read.get(field_id))
            found += [
                EntryProblem(path=entry.path, column=names[field_id], sentence=sentence) for sentence in sentences
            ]
    return EntryCheck(problems=tuple(found), right=_right_entry(entry, facts, modes, read)) if found else None


def _fields_to_read(entry: FileEntry, facts: FooterFacts) -> Iterator[int]:
    """Columns with claims that the footer cannot confirm."""
    for field_id, column in facts.columns.items():
        is_bounded = field_id in entry.lower or field_id in entry.upper
        if column.is_repeated or column.kind is None:
            continue
        counts_nulls = field_id in entry.null_counts and column.nulls is None
        counts_nans = column.kind.declared.is_float and (field_id in entry.upper or field_id in entry.nan_counts)
        if (is_bounded and not column.vouched) or counts_nulls or counts_nans:
            yield field_id


def _check_file(entry: FileEntry, facts: FooterFacts) -> Iterator[str]:
    if entry.size_bytes != facts.size_bytes:
        yield f"it has {facts.size_bytes:,} bytes, and its manifest says {entry.size_bytes:,}"
    if entry.rows != facts.rows:
        yield f"it has {facts.rows:,} rows, and its manifest says {entry.rows:,}"
    if entry.split_offsets and not set(entry.split_offsets) <= set(facts.split_offsets):
        yield f"its row groups begin at {_few(facts.split_offsets)}, and its manifest says {_few(entry.split_offsets)}"


def _few(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers[:4])) + (", …" if len(numbers) > 4 else "")


def _check_column(entry: FileEntry, field_id: int, column: ColumnFacts, read: _Measured | None) -> Iterator[str]:
    values, nulls = entry.value_counts.get(field_id), entry.null_counts.get(field_id)
    if values is not None and values != column.values:
        yield f"it has {column.values:,} values, and its manifest says {values:,}"
    counted = column.nulls if column.nulls is not None else read.nulls if read is not None else None
    if nulls is not None and counted is not None and nulls != counted:
        yield f"{counted:,} of its values are NULL, and its manifest says {nulls:,}"
    if read is not None:
        yield from _check_nans(read, entry.nan_counts.get(field_id), column.values, has_upper=field_id in entry.upper)
    ends = read.ends if read is not None else column.ends if column.vouched else None
    if column.kind is not None and ends is not None:
        yield from _check_bounds(column.kind, ends, entry.lower.get(field_id), entry.upper.get(field_id))


def _check_nans(read: _Measured, counted: int | None, values: int, *, has_upper: bool) -> Iterator[str]:
    """NaN sorts above every number in SQL. Iceberg compares only the upper bound, whatever the NaN count, and skips a
    file only when all values are NaN."""
    if counted is not None and counted != read.nans:
        yield f"{read.nans:,} of its values are NaN, and its manifest says {counted:,}"
    elif read.nans and has_upper:
        yield f"{read.nans:,} of its values are NaN, which lie above the upper bound that its manifest has"
    elif counted and counted == values:
        yield f"all of its {values:,} values are NaN, and by that count readers skip the file for every comparison"


def _check_bounds(
    kind: PrimitiveType, ends: tuple[Value, Value], lower: bytes | None, upper: bytes | None
) -> Iterator[str]:
    for what, encoded in (("lower", lower), ("upper", upper)):
        if encoded is None:
            continue
        bound = decode_bound(kind, encoded)
        if bound is None:
            yield f"its {what} bound is {encoded[:16].hex()}, which is no {kind.kind} that can be a bound"
        elif what == "lower" and ends[0] < bound:  # type: ignore[operator]  # both of one kind
            yield f"its lowest value {_show(kind, ends[0])} lies below its lower bound {_show(kind, bound)}"
        elif what == "upper" and ends[1] > bound:  # type: ignore[operator]
            yield f"its highest value {_show(kind, ends[1])} lies above its upper bound {_show(kind, bound)}"
    if kind.declared.storage == "uuid" and len(lower or b"") in (0, 16) and len(upper or b"") in (0, 16):
        held = uuid_ends(lower or ends[0], upper or ends[1])
        for what, encoded, holds in (("lower", lower, held[0]), ("upper", upper, held[1])):
            if encoded is not None and holds is None:
                yield (
                    f"its {what} bound holds in the order of bytes alone, and readers that take UUIDs for signed "
                    "numbers skip the file"
                )


def _show(kind: PrimitiveType, value: Value) -> str:
    """A value as text, truncated where it is long."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace") if kind.declared.storage == "text" else value.hex()
        return repr(text if len(text) <= 40 else f"{text[:40]}…")
    return str(Decimal(value).scaleb(-kind.scale)) if kind.declared.storage == "decimal" else str(value)


def _right_entry(
    entry: FileEntry, facts: FooterFacts, modes: Mapping[int, MetricsMode], read: Mapping[int, _Measured]
) -> CorrectEntry:
    nans = {
        **entry.nan_counts,
        **{field_id: column.nans for field_id, column in read.items() if _is_float(facts, field_id)},
    }
    known = {field_id: column.ends for field_id, column in read.items() if column.ends is not None}
    return CorrectEntry(
        path=entry.path,
        size_bytes=facts.size_bytes,
        split_offsets=facts.split_offsets,
        metrics=plan_metrics(facts, modes, nans, known),
    )


def _is_float(facts: FooterFacts, field_id: int) -> bool:
    kind = facts.columns[field_id].kind
    return kind is not None and kind.declared.is_float


def _read_column(file: pq.ParquetFile, field_id: int, column: ColumnFacts) -> _Measured:
    """The bounds of a column's values and the number of NaN."""
    assert column.kind is not None
    leaf = leaf_field_ids(file.metadata).index(field_id)
    ends, nans, nulls = None, 0, 0
    for batch in file.iter_batches(_BATCH_ROWS, columns=[file.metadata.schema.column(leaf).path], use_threads=False):
        found = _leaf(batch, field_id)
        nulls += found.null_count
        values = found.drop_null()
        if pa.types.is_floating(values.type):
            is_nan = pc.is_nan(values)
            nans += int(pc.sum(is_nan).as_py() or 0)
            values = values.filter(pc.invert(is_nan))
        if len(values):
            ends = union(ends, _ends(values, column.kind))
    return _Measured(ends=ends, nans=nans, nulls=nulls)


def _leaf(batch: pa.RecordBatch, field_id: int) -> pa.Array:
    """The column of that id, at any depth within structs; by name, `a.b` could not be distinguished from b in a."""
    waiting = list(zip(batch.schema, batch.columns, strict=True))
    for field, array in waiting:
        if pa.types.is_struct(field.type):
            waiting += zip([field.type.field(at) for at in range(field.type.num_fields)], array.flatten(), strict=True)
        elif int((field.metadata or {}).get(_FIELD_ID, b"-1")) == field_id:
            return array.storage if isinstance(array, pa.ExtensionArray) else array
    raise pa.ArrowInvalid(f"column {field_id} is not in the file")


def _ends(values: pa.Array, column: PrimitiveType) -> tuple[Value, Value]:
    """The lowest and highest value, without NULL and NaN, in the form of bounds."""
    kind, unit = values.type, "ns" if column.kind.endswith("_ns") else "us"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = values.cast(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
    elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        values = values.cast(
            pa.timestamp(unit, kind.tz) if pa.types.is_timestamp(kind) else pa.time64("us"), safe=False
        ).cast(pa.int64())
    elif pa.types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32())
    found = pc.min_max(values).as_py()
    return _held(found["min"]), _held(found["max"])


def _held(value: Any) -> Value:
    if isinstance(value, Decimal):
        sign, digits, _ = value.as_tuple()
        whole = int("".join(map(str, digits)) or "0")
        return -whole if sign else whole
    if isinstance(value, bool):
        return int(value)
    assert isinstance(value, int | float | bytes)
    return value
