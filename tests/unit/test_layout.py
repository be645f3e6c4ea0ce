"""The lake's partitioning, derived from the heap's or given by a person."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType
from thermocline.core.partition_layout import MAX_TRUNCATE_WIDTH, parse_layout, plan_layout
from thermocline.errors import UsageError

DAY = 86_400_000_000


@pytest.mark.conforms("C-019")
@pytest.mark.parametrize(
    ("kind", "bounds", "layout"),
    [
        (KeyType.BIGINT, [(0, 1000), (1000, 5000)], "truncate[1000]"),
        (KeyType.SMALLINT, [(AXIS_MIN, 0), (0, 50), (50, AXIS_MAX)], "truncate[50]"),
        (KeyType.BIGINT, [(0, MAX_TRUNCATE_WIDTH)], f"truncate[{MAX_TRUNCATE_WIDTH}]"),
        (KeyType.BIGINT, [(0, MAX_TRUNCATE_WIDTH + 1)], "none"),
        (KeyType.BIGINT, [(AXIS_MIN, AXIS_MAX)], "none"),
        (KeyType.DATE, [(0, 1)], "day"),
        (KeyType.DATE, [(0, 31), (31, 59), (59, 90)], "month"),
        (KeyType.DATE, [(AXIS_MIN, 0)], "day"),
        (KeyType.TIMESTAMPTZ, [(0, 7 * DAY)], "day"),
        (KeyType.TIMESTAMPTZ, [(0, 28 * DAY)], "month"),
        (KeyType.TIMESTAMP, [(0, DAY // 24)], "day"),
        (KeyType.TIMESTAMP, [(AXIS_MIN, 0), (0, 31 * DAY), (31 * DAY, AXIS_MAX)], "month"),
        (KeyType.TIMESTAMP, [(AXIS_MIN, AXIS_MAX)], "day"),
    ],
)
def test_the_layout_follows_the_heaps_partitions(kind: KeyType, bounds: list[tuple[int, int]], layout: str) -> None:
    assert plan_layout(kind, bounds) == layout


@given(st.sampled_from(list(KeyType)), st.lists(st.integers(AXIS_MIN, AXIS_MAX), min_size=2, max_size=8, unique=True))
def test_every_derived_layout_is_one_a_person_may_give(kind: KeyType, cuts: list[int]) -> None:
    cuts.sort()
    derived = plan_layout(kind, list(itertools.pairwise(cuts)))
    assert parse_layout(kind, derived) == derived


@pytest.mark.conforms("C-019")
@pytest.mark.parametrize(
    ("kind", "text", "layout"),
    [
        (KeyType.BIGINT, "width:10", "truncate[10]"),
        (KeyType.BIGINT, "truncate[10]", "truncate[10]"),
        (KeyType.BIGINT, "none", "none"),
        (KeyType.TIMESTAMP, "hour", "hour"),
        (KeyType.TIMESTAMPTZ, "year", "year"),
        (KeyType.DATE, "month", "month"),
    ],
)
def test_a_person_may_choose_the_layout(kind: KeyType, text: str, layout: str) -> None:
    assert parse_layout(kind, text) == layout


@pytest.mark.conforms("C-019")
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (KeyType.BIGINT, "width:2147483648"),
        (KeyType.BIGINT, "width:0"),
        (KeyType.BIGINT, "width:-1"),
        (KeyType.BIGINT, "day"),
        (KeyType.BIGINT, "width:10]"),
        (KeyType.BIGINT, "truncate[10"),
        (KeyType.BIGINT, ""),
        (KeyType.DATE, "hour"),
        (KeyType.DATE, "width:1"),
        (KeyType.TIMESTAMPTZ, "week"),
        (KeyType.TIMESTAMPTZ, ""),
    ],
)
def test_a_layout_the_key_cannot_have_is_refused(kind: KeyType, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_layout(kind, text)
    assert repr(text) in str(refused.value)
    assert refused.value.exit_code == 2
    assert refused.value.hint.startswith("Use ")
