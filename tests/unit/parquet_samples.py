"""Random Parquet files with extreme values of every type."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from tests.unit.bins import iceberg_schema, lake_field

from thermocline.core.column_bounds import (
    Value,
)
from thermocline.parquet.footer.file_metrics import (
    FooterFacts,
    read_footer_facts,
)

PREFIX = "twenty letters alike"
LONG = b"m" * 6_000
"""Longer than the 4,096 bytes up to which Arrow writes statistics."""
WILD_TEXTS = (
    "",
    "\0",
    "a",
    PREFIX,
    PREFIX + "a",
    PREFIX + "\U0010ffff",
    "\U0010ffff" * 17,
    "\ud7ff" * 17,
    "\ue000" * 16 + "z",
    "\xff" * 20,
)
TEXTS = st.one_of(
    st.sampled_from(WILD_TEXTS),
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.text(st.sampled_from("a\uffff\U00010000\U0010ffff\ud7ff"), min_size=15, max_size=18),
    st.integers(4_090, 6_000).map(lambda length: "m" * length),
)
BYTES = st.one_of(
    st.sampled_from([b"", b"\xff" * 16, b"\xff" * 17, b"\x7f" * 17, b"\x80", b"\xff" * 5_000]), st.binary(max_size=30)
)
HALVES = st.sampled_from([bytes(8), b"\x7f" + bytes(7), b"\x80" + bytes(7), b"\xff" * 8, bytes(7) + b"\x01"])
UUIDS = st.tuples(HALVES, HALVES).map(b"".join)
WILD_NUMBERS = (math.nan, 0.0, -0.0, math.inf, -math.inf)


def whole(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.one_of(st.sampled_from([low, high, 0, -1, 127, 128]), st.integers(low, high))


def unscaled(precision: int) -> st.SearchStrategy[int]:
    top = 10**precision - 1
    return st.one_of(st.sampled_from([top, -top, 0, 127, 128, -128, -129, 255, 256]), st.integers(-top, top))


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Value]]] = {
    "boolean": (pa.bool_(), st.integers(0, 1)),
    "int": (pa.int32(), whole(32)),
    "long": (pa.int64(), whole(64)),
    "float": (pa.float32(), st.one_of(st.sampled_from(WILD_NUMBERS), st.floats(width=32))),
    "double": (pa.float64(), st.one_of(st.sampled_from(WILD_NUMBERS), st.floats())),
    "date": (pa.date32(), whole(32)),
    "time": (pa.time64("us"), st.integers(0, 86_399_999_999)),
    "timestamp": (pa.timestamp("us"), whole(64)),
    "timestamptz": (pa.timestamp("us", "UTC"), whole(64)),
    "decimal(9, 2)": (pa.decimal128(9, 2), unscaled(9)),
    "decimal(18, 0)": (pa.decimal128(18, 0), unscaled(18)),
    "decimal(38, 38)": (pa.decimal128(38, 38), unscaled(38)),
    "string": (pa.string(), TEXTS.map(str.encode)),
    "binary": (pa.binary(), BYTES),
    "uuid": (pa.uuid(), st.one_of(st.binary(min_size=16, max_size=16), UUIDS)),
    "fixed[20]": (pa.binary(20), st.binary(min_size=20, max_size=20)),
}
Group = Sequence[Value | None]
FILES = st.one_of(
    *(
        st.tuples(
            st.just(kind),
            st.lists(
                st.lists(st.lists(st.one_of(st.none(), values), min_size=1, max_size=6), min_size=1, max_size=3),
                min_size=1,
                max_size=3,
            ),
        )
        for kind, (_, values) in COLUMNS.items()
    )
)


def array_of(kind: str, values: Group) -> pa.Array:
    """The column in Arrow, of values as `column_bounds` holds them."""
    arrow = COLUMNS[kind][0]
    if pa.types.is_decimal(arrow):
        digits = [
            None if v is None else Decimal((int(int(v) < 0), tuple(map(int, str(abs(int(v))))), -arrow.scale))
            for v in values
        ]
        return pa.array(digits, arrow)
    if pa.types.is_boolean(arrow):
        return pa.array([None if value is None else bool(value) for value in values], arrow)
    if pa.types.is_string(arrow):
        return pa.array(values, pa.binary()).cast(arrow)
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int32() if arrow == pa.date32() else pa.int64()).view(arrow)
    if arrow == pa.uuid():
        return pa.ExtensionArray.from_storage(arrow, pa.array(values, pa.binary(16)))
    return pa.array(values, arrow)


def schema_of(kind: str) -> pa.Schema:
    return pa.schema([lake_field("id", pa.int64(), 1), lake_field("v", COLUMNS[kind][0], 2)])


def write_groups(path: Path, kind: str, groups: Iterable[Group]) -> int:
    """A file of these row groups; how many rows it has."""
    rows = 0
    with pq.ParquetWriter(
        path, schema_of(kind), compression="zstd", store_schema=False, store_decimal_as_integer=True
    ) as writer:
        for group in groups:
            ids = pa.array(range(rows, rows + len(group)), pa.int64())
            writer.write_table(pa.Table.from_arrays([ids, array_of(kind, group)], schema=schema_of(kind)))
            rows += len(group)
    return rows


def facts_of(path: str, kind: str) -> FooterFacts:
    return read_footer_facts(path, json.loads(iceberg_schema((1, "id", "long"), (2, "v", kind))))


def is_nan(value: Value | None) -> bool:
    return isinstance(value, float) and math.isnan(value)
