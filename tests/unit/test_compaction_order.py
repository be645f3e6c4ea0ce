"""The order of rows by columns of every type, its odd values included, against plain Python; and what curves order
by."""

from __future__ import annotations

import threading
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import LongType
from tests.unit.bins import Bin, iceberg_schema, lake_field, local, read_back
from tests.unit.sort_values import DIRECTIONS, KINDS, VALUES, comparable, compare

from thermocline.errors import LakeFileNotWritten, LakeInputUnreadable
from thermocline.errors.maintenance import OutsideThePlan
from thermocline.parquet.decode.prefetch import prefetch
from thermocline.parquet.rewrite_task import OutputFile, SortField
from thermocline.parquet.sort.check_order import check_row_order
from thermocline.parquet.sort.row_order import Direction, row_order
from thermocline.parquet.sort.space_filling_curves import bits_for
from thermocline.parquet.values.transforms import apply_transform


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[Direction], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    directions = [draw(DIRECTIONS) for _ in kinds]
    row = st.tuples(*[st.one_of(st.none(), st.sampled_from(VALUES[kind][1])) for kind in kinds])
    return kinds, directions, draw(st.lists(row, max_size=40))


@settings(max_examples=300, deadline=None)
@given(tables(), st.booleans())
@pytest.mark.conforms("M-088")
def test_rows_are_ordered_by_columns_of_every_type_as_iceberg_orders_them(drawn: Any, sliced: bool) -> None:
    kinds, directions, rows = drawn
    columns = [pa.array([row[at] for row in rows], VALUES[kind][0]) for at, kind in enumerate(kinds)]
    if sliced:
        columns = [pa.concat_arrays([column, column]).slice(len(rows)) for column in columns]
    order = row_order(columns, directions)

    def both(left: int, right: int) -> int:
        pairs = zip(rows[left], rows[right], directions, strict=True)
        ways = (compare(one, other, direction) for one, other, direction in pairs)
        return next((way for way in ways if way), 0)

    found = list(range(len(rows))) if order is None else order.tolist()
    assert found == sorted(range(len(rows)), key=cmp_to_key(both))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True), DIRECTIONS, st.integers(0, 2**32))
def test_odd_values_keep_their_order_through_runs_on_disk(
    tmp_path: Path, kinds: list[str], direction: Direction, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    lake = Bin(
        tmp_path,
        schema=iceberg_schema(*((at + 1, f"c{at}", kind) for at, kind in enumerate(kinds)), (9, "place", "long")),
    )
    fields = [lake_field(f"c{at}", VALUES[kind][0], at + 1) for at, kind in enumerate(kinds)]
    schema = pa.schema([*fields, lake_field("place", pa.int64(), 9)])
    for number in range(2):
        columns = [
            pa.array([(VALUES[k][1] + [None])[n] for n in chance.integers(0, len(VALUES[k][1]) + 1, 300)], VALUES[k][0])
            for k in kinds
        ]
        lake.add(pa.Table.from_arrays([*columns, pa.array(range(number * 300, number * 300 + 300))], schema=schema))
    sort = tuple(
        SortField(field_id=at + 1, descending=direction.descending, nulls_first=direction.nulls_first)
        for at in range(len(kinds))
    )
    spilled, whole = lake.run("sort", sort=sort, memory_bytes=30_000), lake.run("sort", sort=sort)
    assert spilled.note.endswith("runs on disk")
    assert read_back(spilled).column("place").to_pylist() == read_back(whole).column("place").to_pylist()


def test_a_value_that_a_dictionary_names_twice_is_one_value() -> None:
    twice = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1, 0], pa.int32()), pa.array(["a", "a"]))
    order = row_order([twice, pa.array([4, 3, 2, 1])], [Direction(), Direction()])
    assert order is not None
    assert order.tolist() == [3, 2, 1, 0]


def test_truncated_numbers_run_over_where_icebergs_do() -> None:
    small = apply_transform(pa.array([-(2**31), 2**31 - 1, None], pa.int32()), "truncate[10]")
    assert small.to_pylist() == [2**31 - 2, 2**31 - 8 + 0 - (2**31 - 8) % 10, None]
    large = pa.array([-(2**63) + 8, 2**63 - 1, -1], pa.int64())
    assert apply_transform(large, "truncate[10]").to_pylist() == [
        TruncateTransform(10).transform(LongType())(v) for v in large.to_pylist()
    ]


def ranks_by_model(values: list[Any], bits: int) -> list[int]:
    """Each value's share of the rows below it, scaled to so many bits; NULL is nought."""
    below = sorted(comparable(value) for value in values if value is not None)
    nulls, total = len(values) - len(below), len(values)
    found = []
    for value in values:
        share = (
            0
            if value is None
            else (nulls + sum(1 for other in below if other < comparable(value))) * (1 << bits) // total
        )
        found.append(0 if value is None else 1 + min((1 << bits) - 2, share))
    return found


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.conforms("M-090")
def test_z_order_interleaves_the_bits_of_ranks_that_hold_for_the_whole_partition(tmp_path: Path, columns: int) -> None:
    """Ranks of one file or run alone would order rows of several files differently from this model over all of them."""
    kinds: list[tuple[str, pa.DataType]] = [("double", pa.float64()), ("long", pa.int64()), ("string", pa.string())]
    kinds = (kinds * 2)[:columns]
    lake = Bin(
        tmp_path,
        schema=iceberg_schema(*((at + 1, f"c{at}", kind) for at, (kind, _) in enumerate(kinds)), (9, "place", "long")),
    )
    schema = pa.schema(
        [
            *(lake_field(f"c{at}", kind, at + 1) for at, (_, kind) in enumerate(kinds)),
            lake_field("place", pa.int64(), 9),
        ]
    )
    chance, rows = np.random.default_rng(5), []
    for number in range(3):
        # Skewed by powers of ten, the files' ranges apart, some NULL.
        numbers = np.exp(chance.normal(number * 5, 6, (150, columns)))
        texts = [
            [
                _as_kind(float(v), kind) if chance.random() > 0.1 else None
                for v, (kind, _) in zip(row, kinds, strict=True)
            ]
            for row in numbers
        ]
        found = [(*row, number * 150 + at) for at, row in enumerate(texts)]
        rows += found
        lake.add(
            pa.Table.from_arrays(
                [pa.array([row[at] for row in found], schema.field(at).type) for at in range(columns + 1)],
                schema=schema,
            )
        )
    bits = bits_for(columns)
    assert columns * bits <= (64 if columns <= 4 else 128)
    ranks = list(zip(*(ranks_by_model([row[at] for row in rows], bits) for at in range(columns)), strict=True))
    keys = ["".join(f"{rank >> bit & 1}" for bit in range(bits - 1, -1, -1) for rank in row) for row in ranks]
    expected = sorted(range(len(rows)), key=lambda at: keys[at])
    sort = tuple(SortField(field_id=at + 1) for at in range(columns))
    for memory in (402_653_184, 25_000):
        assert read_back(lake.run("zorder", sort=sort, memory_bytes=memory)).column("place").to_pylist() == expected


def _as_kind(value: float, kind: str) -> Any:
    return int(min(value, 2.0**62)) if kind == "long" else f"{value:030.9f}" if kind == "string" else value


@pytest.mark.parametrize("kernel", ["zorder", "hilbert"])
def test_a_condition_on_two_columns_opens_a_small_part_of_a_curves_row_groups(tmp_path: Path, kernel: str) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "a", "double"), (2, "b", "double"), (3, "body", "string")))
    schema = pa.schema(
        [lake_field("a", pa.float64(), 1), lake_field("b", pa.float64(), 2), lake_field("body", pa.string(), 3)]
    )
    chance = np.random.default_rng(11)
    body = pa.array([f"{n:0200d}" for n in range(16_000)])
    for _ in range(4):
        columns = [
            pa.array(chance.random(16_000)),
            pa.array(np.where(chance.random(16_000) < 0.1, np.nan, chance.random(16_000) ** 9)),
            body,
        ]
        lake.add(pa.Table.from_arrays(columns, schema=schema))
    size = sum(file.size_bytes for file in lake.inputs)
    result = lake.run(kernel, sort=(SortField(field_id=1), SortField(field_id=2)), target_bytes=size // 64)
    groups = [pq.ParquetFile(local(file.path)).metadata.row_group(0) for file in result.outputs]
    assert len(groups) >= 12
    nowhere = (np.inf, -np.inf)
    ends = [[file.float_ends.get(at, nowhere) for at in (1, 2)] for file in result.outputs]
    opened = [a for a, b in ends if a[0] <= 0.52 and a[1] >= 0.5 and b[0] <= 0.001 and b[1] >= 0.0009]
    assert 5 * len(opened) <= len(groups)


def test_what_an_external_engine_says_it_sorted_is_looked_at(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "a", "long")))
    schema = pa.schema([lake_field("a", pa.int64(), 1)])
    task = lake.task("sort", sort=(SortField(field_id=1, descending=True, nulls_first=False),))

    def written(*files: list[int | None]) -> list[OutputFile]:
        found = []
        for at, values in enumerate(files):
            pq.write_table(
                pa.table([pa.array(values, pa.int64())], schema=schema), tmp_path / f"{at}.parquet", row_group_size=2
            )
            found.append(
                OutputFile(path=f"file://{tmp_path}/{at}.parquet", size_bytes=1, rows=len(values), split_offsets=())
            )
        return found

    check_row_order(task, written([5, 5, 4], [4, 1, None], [None]), lambda _read, _written: None)
    for wrong in ([[5, 4, 5]], [[3], [4]], [[None, 1]]):
        with pytest.raises(OutsideThePlan, match="not in the requested order"):
            check_row_order(task, written(*wrong), lambda _read, _written: None)


def test_work_ahead_keeps_the_order_waits_for_room_and_stops_with_its_reader() -> None:
    made: list[int] = []
    closed: list[bool] = []

    def numbers() -> Any:
        try:
            for number in range(100):
                made.append(number)
                yield number
        finally:
            closed.append(True)

    found = prefetch(numbers(), lambda _: 10, 30)
    assert [next(found) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(made) <= 5 + 3 + 1
    found.close()
    assert closed == [True]
    assert list(prefetch(numbers(), lambda _: 50, 30)) == list(range(100))


def test_a_sort_that_fails_half_way_leaves_no_thread_and_no_scratch(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "a", "long")))
    for _ in range(3):
        lake.add(pa.table([pa.array(np.arange(20_000))], schema=pa.schema([lake_field("a", pa.int64(), 1)])))
    Path(local(lake.inputs[2].path)).write_bytes(b"PAR1 and then nothing")
    with pytest.raises(LakeInputUnreadable, match="in-2"):
        lake.run("sort", sort=(SortField(field_id=1, descending=True),), memory_bytes=100_000)
    (tmp_path / "out").write_text("in the way of the outputs' folder")
    lake.inputs.pop()
    with pytest.raises(LakeFileNotWritten):
        lake.run("sort", sort=(SortField(field_id=1, descending=True),), memory_bytes=100_000)
    assert not [thread for thread in threading.enumerate() if thread.name == "work ahead"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("thermocline-sort")]


def test_what_work_ahead_fails_with_is_raised_where_it_is_used() -> None:
    def failing() -> Any:
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(prefetch(failing(), lambda _: 1, 10))
