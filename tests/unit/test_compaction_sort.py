"""Sort, z-order and Hilbert: the order Iceberg asks for, the same rows, bounded memory."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections import Counter
from decimal import Decimal
from functools import cmp_to_key
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import BinaryType, DateType, DecimalType, LongType, StringType, TimestampType
from tests.unit.bins import Bin, iceberg_schema, lake_field, local, read_back

from thermocline.errors import RewriteUnsupported
from thermocline.parquet.encode import output_writer as writing
from thermocline.parquet.rewrite_task import BinResult, SortField
from thermocline.parquet.sort import sort_bin as sorting
from thermocline.parquet.sort.row_order import Direction, row_order
from thermocline.parquet.sort.space_filling_curves import hilbert, z_order
from thermocline.parquet.values.transforms import apply_transform

SCHEMA = pa.schema(
    [
        lake_field("a", pa.int64(), 1),
        lake_field("b", pa.string(), 2),
        lake_field("c", pa.float64(), 3),
        lake_field("place", pa.int64(), 4),
    ]
)
JSON = iceberg_schema((1, "a", "long"), (2, "b", "string"), (3, "c", "double"), (4, "place", "long"))
TINY = 4000
"""So little memory that every few dozen rows make a run."""


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array([row[n] for row in rows], SCHEMA.field(n).type) for n in range(4)], schema=SCHEMA
    )


def rows_of(result: BinResult) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in read_back(result).columns), strict=True))


def float_bits(value: float) -> int:
    bits: int = struct.unpack(">Q", struct.pack(">d", value))[0]
    return bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63


def compare(left: Any, right: Any, field: SortField) -> int:
    if left is None or right is None:
        return 0 if left is right else (-1 if (left is None) == field.nulls_first else 1)
    if isinstance(left, float):
        left, right = float_bits(left), float_bits(right)
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    way = int(left > right) - int(left < right)
    return -way if field.descending else way


def by_model(rows: list[tuple[Any, ...]], order: tuple[SortField, ...]) -> list[int]:
    def both(left: tuple[Any, ...], right: tuple[Any, ...]) -> int:
        for field in order:
            if way := compare(left[field.field_id - 1], right[field.field_id - 1], field):
                return way
        return 0

    return [row[3] for row in sorted(rows, key=cmp_to_key(both))]


NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "\U0001f40d", "\uffff", "é"]))
FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0]))
FIELDS = st.builds(SortField, field_id=st.integers(1, 3), descending=st.booleans(), nulls_first=st.booleans())


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    files=st.lists(st.lists(st.tuples(NUMBERS, TEXTS, FLOATS), min_size=1, max_size=80), min_size=1, max_size=4),
    order=st.lists(FIELDS, min_size=1, max_size=3, unique_by=lambda field: field.field_id),
    memory=st.sampled_from([402_653_184, TINY]),
)
@pytest.mark.conforms("M-088")
def test_rows_come_out_in_the_order_asked_and_equal_ones_as_they_came(
    tmp_path: Path, files: Any, order: Any, memory: int
) -> None:
    lake = Bin(tmp_path, schema=JSON)
    rows: list[tuple[Any, ...]] = []
    for file in files:
        found = [(*row, len(rows) + number) for number, row in enumerate(file)]
        rows += found
        lake.add(table(found))
    result = lake.run("sort", sort=tuple(order), memory_bytes=memory)
    assert [row[3] for row in rows_of(result)] == by_model(rows, tuple(order))


def test_the_whole_range_of_numbers_beside_a_column_of_one_value_keeps_its_order() -> None:
    ends = pa.array([2**63 - 1, -(2**63), 0], pa.int64())
    order = row_order([pa.array(["same"] * 3), ends], [Direction(), Direction()])
    assert order is not None
    assert order.tolist() == [1, 2, 0]


@pytest.mark.conforms("M-089")
def test_a_bin_above_the_memory_is_sorted_in_runs_and_leaves_no_scratch(tmp_path: Path) -> None:
    lake, chance = Bin(tmp_path, schema=JSON), np.random.default_rng(3)
    for number in range(4):
        keys = chance.integers(0, 50, 5000)
        lake.add(table([(int(key), f"k{key % 7}", float(key), number * 5000 + n) for n, key in enumerate(keys)]))
    order = (SortField(field_id=2, descending=True), SortField(field_id=1))
    spilled, whole = lake.run("sort", sort=order, memory_bytes=200_000), lake.run("sort", sort=order)
    assert (spilled.note.endswith("runs on disk"), whole.note) == (True, "")
    assert rows_of(spilled) == rows_of(whole)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("thermocline-sort")]


def test_one_key_for_all_rows_still_makes_even_ranges(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    lake.add(table([(1, "same", None, n) for n in range(20_000)]))
    result = lake.run("sort", sort=(SortField(field_id=1), SortField(field_id=2)), memory_bytes=100_000)
    assert [row[3] for row in rows_of(result)] == list(range(20_000))


def test_ranges_of_outputs_do_not_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 2000)
    lake, chance = Bin(tmp_path, schema=JSON), np.random.default_rng(3)
    for number in range(4):
        lake.add(table([(int(key), None, float(key), number) for key in chance.integers(0, 2**60, 5000)]))
    size = sum(file.size_bytes for file in lake.inputs)
    result = lake.run("sort", sort=(SortField(field_id=1),), target_bytes=size // 4, memory_bytes=300_000)
    ends = []
    for output in result.outputs:
        column = pq.read_table(local(output.path)).column("a").to_pylist()
        ends.append((min(column), max(column)))
    assert len(ends) > 2
    assert all(before[1] < after[0] for before, after in pairwise(ends))


def test_deletes_are_applied_before_the_sort(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    path = lake.add(table([(3, None, None, 0), (2, None, None, 1), (1, None, None, 2), (0, None, None, 3)]))
    lake.delete_positions([(path, 1)])
    lake.delete_equal(pa.table([[0]], schema=pa.schema([SCHEMA.field(0)])), [1])
    result = lake.run("sort", sort=(SortField(field_id=1),))
    assert [row[0] for row in rows_of(result)] == [1, 3]
    assert (result.kernel, result.row_maps, result.rows_read) == ("sort", (), 4)


DAYS = pa.array([None, dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 11, 16)], pa.date32())
MOMENTS = pa.array(
    [None, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2026, 11, 16, 3, 4, 5)], pa.timestamp("us")
)


@pytest.mark.parametrize(
    ("array", "transform", "model", "kind"),
    [
        (pa.array([None, -11, -1, 0, 34], pa.int64()), "bucket[16]", BucketTransform(16), LongType()),
        (pa.array([None, "", "iceberg", "ü"]), "bucket[7]", BucketTransform(7), StringType()),
        (pa.array([None, b"\x00\x01"]), "bucket[7]", BucketTransform(7), BinaryType()),
        (
            pa.array([Decimal("14.20"), None, Decimal("-1.28")], pa.decimal128(9, 2)),
            "bucket[11]",
            BucketTransform(11),
            DecimalType(9, 2),
        ),
        (DAYS, "bucket[5]", BucketTransform(5), DateType()),
        (MOMENTS, "bucket[5]", BucketTransform(5), TimestampType()),
        (pa.array([None, -11, -1, 0, 34], pa.int64()), "truncate[10]", TruncateTransform(10), LongType()),
        (pa.array([None, "iceberg", "üäö", "x"]), "truncate[2]", TruncateTransform(2), StringType()),
        (DAYS, "year", YearTransform(), DateType()),
        (DAYS, "month", MonthTransform(), DateType()),
        (DAYS, "day", DayTransform(), DateType()),
        (MOMENTS, "year", YearTransform(), TimestampType()),
        (MOMENTS, "month", MonthTransform(), TimestampType()),
        (MOMENTS, "day", DayTransform(), TimestampType()),
        (MOMENTS, "hour", HourTransform(), TimestampType()),
    ],
)
def test_transforms_equal_pyicebergs(array: pa.Array, transform: str, model: Any, kind: Any) -> None:
    if pa.types.is_temporal(array.type):
        plain = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()
    else:
        plain = array.to_pylist()
    found = apply_transform(array, transform)
    apply = model.transform(kind)
    assert found.to_pylist() == [apply(value) for value in plain]


def test_truncated_decimals_keep_their_order() -> None:
    array = pa.array([Decimal("10.65"), Decimal("-0.05"), None, Decimal("10.60")], pa.decimal128(9, 2))
    assert apply_transform(array, "truncate[50]").to_pylist() == [Decimal(1050), Decimal(-50), None, Decimal(1050)]


def test_what_cannot_be_sorted_by_is_said(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=JSON)
    lake.add(table([(1, "a", 1.0, 0)]))
    with pytest.raises(RewriteUnsupported, match="sort rewrite requires a table sort order"):
        lake.run("sort")
    with pytest.raises(RewriteUnsupported, match="transform zebra"):
        lake.run("sort", sort=(SortField(field_id=1, transform="zebra"),))
    with pytest.raises(RewriteUnsupported, match="field 99"):
        lake.run("sort", sort=(SortField(field_id=99),))


def z_model(values: tuple[int, ...], bits: int) -> int:
    key = 0
    for bit in range(bits - 1, -1, -1):
        for value in values:
            key = key << 1 | value >> bit & 1
    return key


@given(
    st.integers(1, 6).flatmap(lambda n: st.lists(st.tuples(*[st.integers(0, 2**10 - 1)] * n), min_size=1, max_size=20))
)
def test_interleaved_bits_equal_a_bit_by_bit_model(rows: list[tuple[int, ...]]) -> None:
    columns = [np.array(column, dtype=np.uint64) for column in zip(*rows, strict=True)]
    words = z_order(columns, 16)
    keys = [sum(int(word[n]) << 64 * (len(words) - 1 - i) for i, word in enumerate(words)) for n in range(len(rows))]
    assert keys == [z_model(row, 32 if len(columns) == 2 else 16) for row in rows]


@pytest.mark.parametrize(("dimensions", "bits"), [(2, 4), (3, 3), (4, 2)])
def test_hilberts_curve_visits_every_cell_once_and_moves_to_a_neighbour_each_time(dimensions: int, bits: int) -> None:
    grid = np.stack(np.meshgrid(*[np.arange(2**bits)] * dimensions), -1).reshape(-1, dimensions)
    [places] = hilbert([grid[:, n].astype(np.uint64) for n in range(dimensions)], bits)
    assert sorted(places.tolist()) == list(range(len(grid)))
    walk = grid[np.argsort(places)]
    assert set(np.abs(np.diff(walk, axis=0)).sum(axis=1).tolist()) == {1}


KINDS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("int", pa.int32(), [5, 1, 3]),
    ("double", pa.float64(), [0.5, -1.0, math.inf]),
    ("string", pa.string(), ["a", "long text", ""]),
    ("date", pa.date32(), [dt.date(2026, 1, 1), dt.date(1960, 1, 1), dt.date(2000, 1, 1)]),
    (
        "timestamptz",
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    ),
    ("boolean", pa.bool_(), [True, False]),
    ("decimal(9,2)", pa.decimal128(9, 2), [Decimal("1.5"), Decimal("-3.25")]),
    ("decimal(30,2)", pa.decimal128(30, 2), [Decimal("1e20"), Decimal("-3.25")]),
]


@pytest.mark.parametrize("kernel", ["zorder", "hilbert"])
@pytest.mark.conforms("M-091")
def test_curves_take_columns_of_every_kind_and_keep_every_row(tmp_path: Path, kernel: str) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema(*((n + 1, f"c{n}", kind[0]) for n, kind in enumerate(KINDS))))
    schema = pa.schema([lake_field(f"c{n}", kind[1], n + 1) for n, kind in enumerate(KINDS)])
    chance = np.random.default_rng(9)
    for _ in range(3):
        columns = [
            pa.array([None if (n := int(chance.integers(-1, len(v)))) < 0 else v[n] for _ in range(500)], k)
            for _, k, v in KINDS
        ]
        lake.add(pa.Table.from_arrays(columns, schema=schema))
    before = Counter(
        row for file in lake.inputs for row in zip(*pq.read_table(local(file.path)).to_pydict().values(), strict=True)
    )
    order = tuple(SortField(field_id=n + 1) for n in range(len(KINDS)))
    first, second = lake.run(kernel, sort=order), lake.run(kernel, sort=order, memory_bytes=150_000)
    assert Counter(rows_of(first)) == before
    assert rows_of(first) == rows_of(second)
    assert second.note.endswith("runs on disk")


@pytest.mark.parametrize("kernel", ["zorder", "hilbert"])
def test_both_columns_of_a_curve_prune_files_although_one_is_skewed_and_has_nulls(
    tmp_path: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP_ROWS", 1250)
    monkeypatch.setattr(sorting, "_BATCH_BYTES", (4000, 4000))
    chance, lake = np.random.default_rng(4), Bin(tmp_path, schema=JSON)
    for _ in range(4):
        skewed = np.exp(chance.normal(0, 12, 5000))
        rows = [
            (int(a), None, None if n % 10 == 0 else float(c), n)
            for n, (a, c) in enumerate(zip(chance.integers(0, 2**50, 5000), skewed, strict=True))
        ]
        lake.add(table(rows))
    result = lake.run(kernel, sort=(SortField(field_id=1), SortField(field_id=3)))
    file = pq.ParquetFile(local(result.outputs[0].path))
    assert file.num_row_groups >= 15
    groups = [file.read_row_group(n) for n in range(file.num_row_groups)]
    spans = []
    for column, middle in ((0, 2**49), (2, 1.0)):
        ends = [pc.min_max(group.column(column)).as_py() for group in groups]
        spans.append(sum(end["min"] is not None and end["min"] <= middle <= end["max"] for end in ends))
    assert max(spans) <= 10
