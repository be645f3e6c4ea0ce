"""What is a jump and what a backlog, and that neither T nor R outruns the clock."""

from __future__ import annotations

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine, PartitionObservation, TableObservation
from thermocline.core.plan.jumps import (
    Jump,
    plan_cutline_jump,
    plan_retention_jump,
    render_cutline_jump,
    render_retention_jump,
)
from thermocline.core.plan.retention import plan_retention_line
from thermocline.core.plan.tier import plan_tiering, render_next

DAY = 86_400_000_000


def grid(*sizes: int, width: int = 10) -> tuple[PartitionObservation, ...]:
    """Partitions from 0 on, of these sizes."""
    return tuple(
        PartitionObservation(
            oid=at,
            name=TableName("p", f"p{at}"),
            lo=at * width,
            hi=(at + 1) * width,
            state="hot",
            size_bytes=size,
            is_empty=not size,
        )
        for at, size in enumerate(sizes)
    )


def jump(
    *sizes: int,
    t: int = 0,
    first: bool = False,
    beyond: int | None = None,
    accepted: int | None = None,
    key: KeyType = KeyType.BIGINT,
    width: int = 10,
) -> tuple[int, int] | None:
    found = plan_cutline_jump(key, grid(*sizes, width=width), t, is_first=first, beyond=beyond, accepted=accepted)
    return (found.start, found.to) if found else None


def test_a_backlog_of_any_length_is_no_jump_and_neither_is_a_short_hole() -> None:
    assert jump(*[8] * 200) is None
    assert jump(8, 0, 0, 0, 8) is None
    assert jump(0, 0, 0, 8) is None


def test_a_longer_hole_is_a_jump_to_the_rows_behind_it() -> None:
    assert jump(8, 0, 0, 0, 0, 8, 8) == (10, 50)
    assert jump(8, 8, beyond=51) == (20, 51)
    assert jump(8, 8, beyond=50) is None
    assert jump(0, 0, 0, 0, 0, 8, t=10) == (10, 50)


def test_before_anything_was_tiered_rows_begin_where_they_begin() -> None:
    assert jump(0, 0, 0, 0, 0, 8, first=True) is None
    assert jump(8, 0, 0, 0, 0, 8, first=True) == (10, 50)


def test_stray_rows_of_integer_keys_do_not_fill_a_hole_and_growth_is_no_jump() -> None:
    assert jump(900, 900, 0, 0, 8, 0, 0, 8, 0, 8) == (20, 70)
    assert jump(8, 8, 8, 8, 8, 900, 900) is None
    assert jump(900, 900, 9, 9, 9, 9, 9) is None


def test_the_word_is_for_the_jump_that_was_seen() -> None:
    assert jump(8, 0, 0, 0, 0, 8, 8, accepted=50) is None
    assert jump(8, 0, 0, 0, 0, 8, 0, 0, 0, 0, 8, accepted=50) == (60, 100)


def test_temporal_keys_may_rest_for_a_month() -> None:
    rest = [0] * 31
    assert jump(8, *rest, 8, key=KeyType.DATE, width=1) is None
    assert jump(8, *rest, 0, 8, key=KeyType.DATE, width=1) == (1, 33)
    assert jump(8, *rest, 0, 8, key=KeyType.TIMESTAMPTZ, width=DAY) == (DAY, 33 * DAY)


def test_the_retention_line_takes_long_strides_only_at_first_or_with_a_word() -> None:
    bounds = [(at, at + 10) for at in range(0, 200, 10)]
    assert plan_retention_jump(KeyType.BIGINT, bounds, None, 150, None) is None
    assert plan_retention_jump(KeyType.BIGINT, bounds, 20, 50, None) is None
    assert plan_retention_jump(KeyType.BIGINT, bounds, 20, 60, None) == Jump(start=20, to=60)
    assert plan_retention_jump(KeyType.BIGINT, bounds, 20, 60, 60) is None
    assert plan_retention_jump(KeyType.BIGINT, bounds, 20, 70, 60) == Jump(start=20, to=70)


def test_what_waits_says_what_to_type() -> None:
    seen = Jump(start=0, to=100 * DAY)
    assert render_cutline_jump(KeyType.TIMESTAMPTZ, "public.events", seen).endswith(
        "`thermocline tier public.events --accept-jump '1970-04-11 00:00:00+00'`"
    )
    assert "deleted for good" in render_retention_jump(KeyType.BIGINT, "public.events", Jump(start=0, to=5))


PLACES = st.integers(-60, 60) | st.sampled_from([AXIS_MAX - 1, AXIS_MAX])
"""Of rows: nearby, and the last keys that there are ('infinity' is the last)."""


@given(st.sampled_from(KeyType), st.lists(st.sampled_from([0, 8]), min_size=1, max_size=9), PLACES, st.none() | PLACES)
def test_rows_beyond_a_hole_are_a_jump_wherever_they_are_unless_accepted(
    key: KeyType, sizes: list[int], beyond: int, accepted: int | None
) -> None:
    top = len(sizes) * 10
    found = jump(*sizes, beyond=beyond if beyond >= top else None, accepted=accepted, key=key)
    rows = [at * 10 for at, size in enumerate(sizes) if size] + ([beyond] if beyond >= top else [])
    stride = 31 * DAY if key in (KeyType.TIMESTAMP, KeyType.TIMESTAMPTZ) else 31 if key is KeyType.DATE else 30
    near = 0
    for row in rows:
        if row - near > stride and (accepted is None or row > accepted):
            assert found == (near, row)
            return
        near = row + 10
    assert found is None


@given(
    st.lists(st.integers(-50, 50), min_size=2, max_size=9, unique=True),
    st.integers(-60, 60),
    PLACES,
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_neither_line_outruns_the_clock_whatever_rows_say(
    cuts: list[int], now: int, high_water: int, lag: int, retention: int
) -> None:
    ends = sorted(cuts)
    partitions = tuple(
        PartitionObservation(
            oid=at,
            name=TableName("p", f"p{at}"),
            lo=lo,
            hi=hi,
            state="hot",
            size_bytes=8,
            is_behind_tiering=hi + lag <= high_water,
            is_reclaimable=hi + lag <= high_water,
        )
        for at, (lo, hi) in enumerate(itertools.pairwise(ends))
    )
    cut = CutLine(t=ends[0], s=None, seam_line=ends[0], fence=1)
    at = TableObservation(
        table=TableName("p", "t"),
        key_type=KeyType.DATE,
        cut=cut,
        partitions=partitions,
        now=now,
        tiering_lag=lag,
        reclaim_lag=lag,
    )
    plan = plan_tiering(at)
    assert plan.new_t == ends[0] or plan.new_t + lag <= now
    tiered = tuple(dataclasses.replace(p, state="tiered") for p in partitions)
    dropping = plan_tiering(dataclasses.replace(at, cut=dataclasses.replace(cut, t=ends[-1]), partitions=tiered)).drop
    assert all(p.hi <= now for p in dropping)
    line = plan_retention_line(plan.new_t, retention, ends, AXIS_MAX, AXIS_MIN, now=now)
    assert line is None or line <= now - retention


def test_a_partition_that_rows_have_passed_and_the_clock_has_not_says_so() -> None:
    (only,) = grid(8)
    cut = CutLine(t=0, s=None, seam_line=0, fence=1)
    seen = TableObservation(
        table=TableName("p", "t"),
        key_type=KeyType.DATE,
        cut=cut,
        partitions=(dataclasses.replace(only, is_behind_tiering=True),),
        now=9,
        tiering_lag=3,
    )
    assert plan_tiering(seen).move == ()
    assert render_next(seen) == "p.p0 moves once the clock has passed 1970-01-14"
    assert plan_tiering(dataclasses.replace(seen, now=13)).move
