"""The grid goes on as its newest partitions do."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, render_axis
from thermocline.core.plan.premake import MAX_RUN_UP, Grid, plan_premake


def _micros(text: str, zone: str = "UTC") -> int:
    since = dt.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return since // dt.timedelta(microseconds=1)


def _grid(*bounds: tuple[str, int, int], kind: KeyType = KeyType.TIMESTAMPTZ, ready: int = 0, **more: object) -> Grid:
    return Grid(table="events", key_type=kind, bounds=bounds, t=bounds[0][1], ready=ready, **more)  # type: ignore[arg-type]


def _told(grid: Grid, count: int) -> list[tuple[str, str, str]]:
    made = plan_premake(grid, count).make
    return [(new.name, render_axis(grid.key_type, new.lo), render_axis(grid.key_type, new.hi)) for new in made]


def test_months_stay_months_whatever_their_length() -> None:
    grid = _grid(("events_2026_01", _micros("2026-01-01"), _micros("2026-02-01")))
    assert _told(grid, 2) == [
        ("events_2026_02", "2026-02-01 00:00:00+00", "2026-03-01 00:00:00+00"),
        ("events_2026_03", "2026-03-01 00:00:00+00", "2026-04-01 00:00:00+00"),
    ]


def test_months_of_the_databases_own_zone_stay_months() -> None:
    zone = "America/New_York"
    grid = _grid(("p2026-02", _micros("2026-02-01", zone), _micros("2026-03-01", zone)), zone=zone)
    assert _told(grid, 1) == [("p2026-03", "2026-03-01 05:00:00+00", "2026-04-01 04:00:00+00")]


def test_local_days_keep_their_midnights_over_the_change_of_the_clocks() -> None:
    zone = "America/New_York"
    grid = _grid(("x", _micros("2026-03-07", zone), _micros("2026-03-08", zone)), zone=zone)
    assert [(lo, hi) for _, lo, hi in _told(grid, 2)] == [
        ("2026-03-08 05:00:00+00", "2026-03-09 04:00:00+00"),
        ("2026-03-09 04:00:00+00", "2026-03-10 04:00:00+00"),
    ]


def test_four_week_partitions_are_no_months() -> None:
    day = 86_400_000_000
    first = _micros("2026-01-04")
    grid = _grid(("a", first, first + 28 * day), ("b", first + 28 * day, first + 56 * day))
    assert plan_premake(grid, 1).make[0].hi == first + 84 * day


@pytest.mark.parametrize(
    ("kind", "bounds", "width", "made"),
    [
        (KeyType.INTEGER, ("events_p0", 0, 1000), None, ("events_p1000", 1000, 2000)),
        (KeyType.INTEGER, ("events_p0", 0, 1000), 50, ("events_p1000", 1000, 1050)),
        (KeyType.BIGINT, ("first", -10, 0), None, ("events_p0", 0, 10)),
        (KeyType.DATE, ("d20260101", 20454, 20455), None, ("d20260102", 20455, 20456)),
        (
            KeyType.TIMESTAMP,
            ("a", 3_600_000_000, 7_200_000_000),
            None,
            ("events_p19700101_020000", 7_200_000_000, 10_800_000_000),
        ),
    ],
)
def test_widths_and_names_go_on(
    kind: KeyType, bounds: tuple[str, int, int], width: int | None, made: tuple[str, int, int]
) -> None:
    (new,) = plan_premake(_grid(bounds, kind=kind, width=width), 1).make
    assert (new.name, new.lo, new.hi) == made


def test_nothing_is_made_for_an_empty_table_an_open_end_or_when_it_is_off() -> None:
    assert plan_premake(_grid(("a", 0, 10), kind=KeyType.INTEGER, ready=1), 2).make == ()
    assert plan_premake(_grid(("a", 0, 10), ("b", 10, AXIS_MAX), kind=KeyType.INTEGER), 2).make == ()
    assert plan_premake(_grid(("a", 0, 10), kind=KeyType.INTEGER), 0).make == ()
    assert "two bounds" in plan_premake(_grid(("a", AXIS_MIN, 10), kind=KeyType.INTEGER), 2).notes[0]


def test_the_grid_ends_where_the_type_ends() -> None:
    assert [(new.lo, new.hi) for new in plan_premake(_grid(("a", 32000, 32500), kind=KeyType.SMALLINT), 3).make] == []
    assert len(plan_premake(_grid(("a", 31000, 31500), kind=KeyType.SMALLINT), 9).make) == 2


def test_rows_beyond_the_grid_get_their_partition_and_those_too_far_are_named() -> None:
    near = plan_premake(_grid(("a", 0, 10), kind=KeyType.INTEGER, highest_beyond=37), 2)
    assert [(new.lo, new.hi) for new in near.make] == [(10, 20), (20, 30), (30, 40), (40, 50), (50, 60)]
    far = plan_premake(_grid(("a", 0, 10), kind=KeyType.INTEGER, highest_beyond=10 * MAX_RUN_UP + 10), 2)
    assert [(new.lo, new.hi) for new in far.make] == [(10, 20), (20, 30)]
    assert "rows at or above 10" in far.notes[0]
    again = plan_premake(
        _grid(
            ("z", -10, 0),
            ("a", 0, 10),
            ("b", 10, 20),
            ("c", 20, 30),
            kind=KeyType.INTEGER,
            ready=2,
            highest_beyond=10**6,
        ),
        2,
    )
    assert again.make == ()


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=5),
    st.integers(0, 5),
    st.integers(0, 4),
    st.none() | st.integers(0, 400),
)
def test_new_partitions_follow_each_other_above_all_there_are(
    widths: list[int], count: int, ready: int, beyond: int | None
) -> None:
    edges = [0]
    for width in widths:
        edges.append(edges[-1] + width)
    bounds = tuple((f"p{lo}", lo, hi) for lo, hi in pairwise(edges))
    highest = None if beyond is None else edges[-1] + beyond
    grid = _grid(*bounds, kind=KeyType.INTEGER, ready=min(ready, len(bounds)), highest_beyond=highest)
    made = plan_premake(grid, count).make
    cursor = edges[-1]
    for new in made:
        assert new.lo == cursor < new.hi
        cursor = new.hi
    if made and highest is not None and cursor > highest:
        assert sum(1 for new in made if new.lo > highest) == count
