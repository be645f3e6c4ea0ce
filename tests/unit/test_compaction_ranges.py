"""Ranges of sort keys and the order of words, against plain Python: whatever the sample said, a range never holds a key
beyond the next."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.bins import Bin, iceberg_schema, lake_field, read_back
from tests.unit.sort_values import DIRECTIONS, KINDS, VALUES, compare

from thermocline.parquet.rewrite_task import SortField
from thermocline.parquet.sort import key_sample
from thermocline.parquet.sort.key_ranges import plan_ranges
from thermocline.parquet.sort.row_order import Direction, word_order

ORDER = (SortField(field_id=1), SortField(field_id=2, descending=True))
SCHEMA = pa.schema(
    [lake_field("a", pa.int64(), 1), lake_field("b", pa.string(), 2), lake_field("place", pa.int64(), 3)]
)


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[str], list[Direction], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    row = st.tuples(*[st.one_of(st.none(), st.sampled_from(VALUES[kind][1])) for kind in kinds])
    return (
        kinds,
        [draw(DIRECTIONS) for _ in kinds],
        draw(st.lists(row, max_size=20)),
        draw(st.lists(row, min_size=1, max_size=30)),
    )


@settings(max_examples=120, deadline=None)
@given(keys(), st.integers(1, 30), st.booleans())
def test_a_row_of_an_earlier_range_never_comes_after_one_of_a_later_whatever_was_sampled(
    drawn: Any, count: int, coded: bool
) -> None:
    kinds, directions, sample, rows = drawn
    columns = [pa.array([row[at] for row in rows], VALUES[kind][0]) for at, kind in enumerate(kinds)]
    if coded:
        columns = [column.dictionary_encode() if pa.types.is_string(column.type) else column for column in columns]
    parts = [[pa.array([row[at]], VALUES[kind][0]) for at, kind in enumerate(kinds)] for row in sample]
    ranges = plan_ranges(parts, directions, count)
    numbers = ranges.numbers(columns).tolist()

    def both(left: int, right: int) -> int:
        ways = (
            compare(one, other, direction)
            for one, other, direction in zip(rows[left], rows[right], directions, strict=True)
        )
        return next((way for way in ways if way), 0)

    ordered = sorted(range(len(rows)), key=cmp_to_key(both))
    found = [numbers[at] for at in ordered]
    assert found == sorted(found)
    assert max(found) < len(ranges) <= max(1, count)
    assert all(numbers[one] == numbers[other] for one, other in pairwise(ordered) if both(one, other) == 0)


@pytest.mark.parametrize("bits", [3, 16, 20, 40, 64])
@pytest.mark.parametrize("stretches", [1, 3, 900])
def test_words_of_any_width_are_put_in_stable_order(bits: int, stretches: int) -> None:
    chance = np.random.default_rng(bits)
    words = chance.integers(0, 2**bits, 9000, dtype=np.uint64, endpoint=False)
    words[::3] = words[::-3] if bits == 64 else words[0]
    words = np.concatenate([np.sort(part) for part in np.array_split(words, stretches)])
    order = word_order(words)
    assert (order is None) == (stretches == 1)
    assert np.array_equal(np.arange(9000) if order is None else order, np.argsort(words, kind="stable"))


def test_words_that_differ_in_their_lowest_bits_alone_are_told_apart() -> None:
    low = np.random.default_rng(1).permutation(2000).astype(np.uint64)
    words = np.append(
        low[:400] + np.uint64(1 << 63), np.random.default_rng(2).integers(0, 1 << 60, 4000).astype(np.uint64)
    )
    for found in (words, np.append(low, np.uint64(1 << 63))):
        order = word_order(found)
        assert order is not None
        assert np.array_equal(order, np.argsort(found, kind="stable"))


def test_a_sample_that_is_far_off_costs_runs_and_never_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first file is looked at, and all other rows lie beyond its keys, most of them with one key."""
    monkeypatch.setattr(key_sample, "_evenly_spaced", lambda _count, _most: [0])
    lake = Bin(tmp_path, schema=iceberg_schema((1, "a", "long"), (2, "b", "string"), (3, "place", "long")))
    chance, rows = np.random.default_rng(5), []
    for number in range(4):
        found = (
            chance.integers(0, 50, 3000)
            if number == 0
            else np.where(chance.random(3000) < 0.7, 99, chance.integers(50, 90, 3000))
        )
        rows += [(int(a), f"{int(a) % 3}", number * 3000 + at) for at, a in enumerate(found)]
        columns = [pa.array([row[at] for row in rows[-3000:]], SCHEMA.field(at).type) for at in range(3)]
        lake.add(pa.Table.from_arrays(columns, schema=SCHEMA))
    result = lake.run("sort", sort=ORDER, memory_bytes=120_000)
    assert read_back(result).column("place").to_pylist() == [
        row[2] for row in sorted(rows, key=lambda row: (row[0], -int(row[1])))
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("thermocline-sort")]


def test_a_sort_reads_ahead_of_its_rows_no_more_than_its_keys(tmp_path: Path) -> None:
    lake = Bin(tmp_path, schema=iceberg_schema((1, "a", "long"), (2, "b", "string"), (3, "place", "long")))
    for number in range(3):
        columns = [
            pa.array([number, 5, 6] * 900),
            pa.array([f"{at * 7919:0200d}" for at in range(2700)]),
            pa.array(range(2700)),
        ]
        lake.add(pa.Table.from_arrays(columns, schema=SCHEMA))
    lake.run("sort", sort=ORDER[:1], memory_bytes=400_000)
    sorting = sum(read for read, _ in lake.paced)
    lake.paced.clear()
    lake.run("reencode")
    encoding = sum(read for read, _ in lake.paced)
    assert encoding < sorting <= encoding * 1.05
