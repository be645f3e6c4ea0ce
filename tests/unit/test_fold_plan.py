"""Folding's plan and its join: pure parts, against brute force."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MIN, KeyType
from thermocline.core.lake_file import FileBounds
from thermocline.core.names import TableName
from thermocline.core.plan.fold import (
    RANGE_ROWS,
    Edge,
    FoldRange,
    find_files_in_range,
    plan_folding,
    plan_range_rows,
    render_fold_plan,
)
from thermocline.parquet.values.key_index import KeyIndex

TABLE = TableName("public", "events")
edges = st.lists(
    st.builds(lambda key, rows: Edge(key=key, rows=rows), key=st.integers(-50, 49), rows=st.integers(1, 30)),
    max_size=12,
)


@given(edges=edges, max_rows=st.integers(1, 200))
def test_the_ranges_of_a_fold_cover_every_key_once_from_the_lowest_up(edges: list[Edge], max_rows: int) -> None:
    pending = sum(edge.rows for edge in edges)
    plan = plan_folding(TABLE, pending, edges, 50, max_rows)
    assert plan.rows + plan.left == pending
    assert bool(plan.ranges) == bool(edges)
    for before, after in zip(plan.ranges, plan.ranges[1:], strict=False):
        assert before.lo < before.hi == after.lo
    if plan.ranges:
        assert plan.ranges[0].lo == min(edge.key for edge in edges)
        assert (plan.ranges[-1].hi == 50) == (plan.left == 0)
        assert plan.rows <= max_rows or len(plan.ranges) == 1


def test_a_task_never_takes_more_than_its_share_of_a_backlog() -> None:
    assert plan_range_rows(0, 2) == 1
    assert plan_range_rows(1001, 2) == 501
    assert plan_range_rows(10_000_000, 2) == 100_000


def test_corrections_that_share_one_tier_key_are_shared_out_among_tasks() -> None:
    many = [Edge(key=7, rows=RANGE_ROWS)] * 9 + [Edge(key=8, rows=5)]
    plan = plan_folding(TABLE, 9 * RANGE_ROWS + 5, many, 50, 10 * RANGE_ROWS)
    assert [(part.lo, part.share, part.shares) for part in plan.ranges] == [(7, share, 5) for share in range(5)] + [
        (8, 0, 1)
    ]
    assert (plan.rows, plan.left) == (9 * RANGE_ROWS + 5, 0)
    assert max(part.rows for part in plan.ranges) <= 2 * RANGE_ROWS
    partial = plan_folding(TABLE, 9 * RANGE_ROWS + 5, many, 50, 4 * RANGE_ROWS)
    assert [part.share for part in partial.ranges] == [0, 1]
    assert partial.rows + partial.left == 9 * RANGE_ROWS + 5


def test_a_range_looks_only_into_files_whose_bounds_meet_it() -> None:
    files = [
        FileBounds(path=name, lower=low, upper=high)
        for name, low, high in (("a", 0, 9), ("b", 10, 19), ("c", 5, 15), ("d", 20, 29))
    ]
    assert [file.path for file in find_files_in_range(FoldRange(lo=10, hi=20, rows=1), files)] == ["b", "c"]
    assert [file.path for file in find_files_in_range(FoldRange(lo=AXIS_MIN, hi=5, rows=1), files)] == ["a"]
    assert [file.path for file in find_files_in_range(FoldRange(lo=9, hi=10, rows=1), files)] == ["a", "c"], (
        "bounds take in both ends"
    )


def test_a_fold_plan_is_told_in_sentences() -> None:
    plan = plan_folding(TABLE, 5, [Edge(key=1, rows=3), Edge(key=4, rows=2)], 9, 3)
    assert render_fold_plan(plan, KeyType.BIGINT) == (
        "fold 3 corrections (1 to 4) in 1 task",
        "leave 2 corrections to the next commit",
    )
    assert render_fold_plan(plan_folding(TABLE, 0, [], 9), KeyType.BIGINT) == ("nothing to fold",)


rows = st.tuples(
    st.integers(0, 4), st.sampled_from(["", "a", "A", "b\t", "b"]), st.sampled_from([0.0, -0.0, 1.5, float("nan")])
)


@given(keys=st.lists(rows, min_size=1, max_size=12), lake=st.lists(rows, max_size=25), width=st.integers(1, 3))
def test_the_key_index_finds_what_a_comparison_row_by_row_finds(
    keys: list[tuple[int, str, float]], lake: list[tuple[int, str, float]], width: int
) -> None:
    names = ["k", "label", "x"][:width]
    columns = dict(zip(["k", "label", "x"], zip(*lake, strict=True) if lake else ([], [], []), strict=True))
    types = {"k": pa.int64(), "label": pa.string(), "x": pa.float64()}
    index = KeyIndex(
        pa.table({name: pa.array([key[at] for key in keys], types[name]) for at, name in enumerate(names)}), names
    )
    found, groups = index.find(lambda name: pa.chunked_array([pa.array(list(columns[name]), types[name])]))
    wanted = {canonical(key[:width]) for key in keys}
    assert found.tolist() == [at for at, row in enumerate(lake) if canonical(row[:width]) in wanted]
    by_group = {int(group): canonical(key[:width]) for group, key in zip(index.groups, keys, strict=True)}
    assert [by_group[int(group)] for group in groups] == [canonical(lake[at][:width]) for at in found]


def canonical(row: tuple[object, ...]) -> tuple[object, ...]:
    """Postgres' equality: zeros are equal, and so are all NaNs."""
    return tuple("nan" if value != value else value + 0.0 if isinstance(value, float) else value for value in row)


@pytest.mark.parametrize(
    "kind", [pa.uuid(), pa.binary(), pa.decimal128(38, 9), pa.date32(), pa.timestamp("us", "UTC"), pa.bool_()]
)
def test_the_key_index_takes_every_type_a_key_may_have(kind: pa.DataType) -> None:
    plain = {"extension<arrow.uuid>": [b"0" * 16, b"1" * 16], "binary": [b"\x00", b""], "bool": [True, False]}.get(
        str(kind), [1, 2]
    )
    values = (
        pa.array(plain, kind.storage_type).cast(kind)
        if isinstance(kind, pa.BaseExtensionType)
        else pa.array(plain, pa.int32() if kind == pa.date32() else None).cast(kind)
    )
    index = KeyIndex(pa.table({"k": values.slice(1, 1)}), ["k"])
    assert index.find(lambda _: pa.chunked_array([values]))[0].tolist() == [1]
