"""Every tier-key type through register, tier, correct and drop: uneven grids, open ends, gaps, and clocks of three time
zones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tests.twin import Spanning

from thermocline.runtime.pg import connect_as_typed as connect

ZONES = ("UTC", "America/New_York", "Asia/Kolkata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A tier key: its type, the bounds of an uneven grid with open ends and one gap, and how a row's number becomes a
    key."""

    pg_type: str
    bounds: tuple[tuple[str, str], ...]
    value: str
    cold: str
    moved: str


INTEGER_BOUNDS = (
    ("minvalue", "100"),
    ("100", "150"),
    ("150", "400"),
    ("500", "700"),
    ("700", "1000"),
    ("1000", "maxvalue"),
)
KEYS = {
    "smallint": Key(
        pg_type="smallint", bounds=INTEGER_BOUNDS, value="(i * 5 - 500)::smallint", cold="250", moved="k + 1"
    ),
    "integer": Key(pg_type="integer", bounds=INTEGER_BOUNDS, value="i * 5 - 500", cold="250", moved="k + 1"),
    "bigint": Key(
        pg_type="bigint",
        bounds=(
            ("minvalue", "-5000000000"),
            ("-5000000000", "0"),
            ("0", "7000000000"),
            ("8000000000", "9000000000"),
            ("9000000000", "maxvalue"),
        ),
        value="i * 50000000::bigint - 10000000000",
        cold="-6000000000",
        moved="k + 1",
    ),
    "date": Key(
        pg_type="date",
        bounds=(
            ("minvalue", "'1969-12-30'"),
            ("'1969-12-30'", "'1970-01-02'"),
            ("'1970-01-02'", "'1970-03-01'"),
            ("'1970-03-10'", "'1970-04-01'"),
            ("'1970-04-01'", "maxvalue"),
        ),
        value="date '1969-12-01' + i / 3",
        cold="'1969-12-31'",
        moved="k + 1",
    ),
    "timestamp": Key(
        pg_type="timestamp",
        bounds=(
            ("minvalue", "'1969-12-31 23:00'"),
            ("'1969-12-31 23:00'", "'1970-01-01 01:00'"),
            ("'1970-01-01 01:00'", "'1970-01-20 12:34:56.789012'"),
            ("'1970-01-25'", "'1970-02-01'"),
            ("'1970-02-01'", "maxvalue"),
        ),
        value="timestamp '1969-12-28 00:00:00.000001' + i * interval '2 hours 17 minutes'",
        cold="'1970-01-01 00:00'",
        moved="k + interval '1 hour'",
    ),
    "timestamptz": Key(
        pg_type="timestamptz",
        bounds=(
            ("minvalue", "'2026-03-08 06:00+00'"),
            ("'2026-03-08 06:00+00'", "'2026-03-08 07:00+00'"),
            ("'2026-03-08 07:00+00'", "'2026-03-29 01:00+00'"),
            ("'2026-04-01 00:00+05:30'", "'2026-04-20 00:00-04'"),
            ("'2026-04-20 00:00-04'", "maxvalue"),
        ),
        value="timestamptz '2026-03-01 00:00:00.000001+00' + i * interval '5 hours 11 minutes'",
        cold="'2026-03-08 06:30+00'",
        moved="k + interval '1 hour'",
    ),
}


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A time zone in which this process, the worker's, lives."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def _make(make_spanning: Callable[..., Spanning], key: Key, rows: int = 400) -> Spanning:
    partitions = "".join(
        f"create table public.p{n} partition of public.events for values from ({lo}) to ({hi});"
        for n, (lo, hi) in enumerate(key.bounds)
    )
    lo, hi = _gap(key)
    return make_spanning(
        table=(
            f"create table {{schema}}.events (id bigint not null, k {key.pg_type} not null, v integer, note text, "
            "primary key (k, id))"
        ),
        partition_by="range (k)",
        partitions=partitions,
        rows=f"insert into events select * from (select i, {key.value} as k, i, 'row ' || i from "
        f"generate_series(1, {rows}) i) g"
        f" where not (k >= {lo} and k < {hi})",
    )


@pytest.mark.conforms("C-001", "C-016", "C-020", "C-021", "C-051", "C-177")
@pytest.mark.parametrize("name", KEYS)
def test_every_key_type_tiers_an_uneven_grid_with_open_ends_and_a_gap(
    make_spanning: Callable[..., Spanning], name: str
) -> None:
    key = KEYS[name]
    spanning = _make(make_spanning, key)
    spanning.assert_same_rows()
    report = spanning.tier()
    assert len(report.moved) == len(key.bounds) - 1, "all but the partition without an upper bound"
    spanning.assert_same_rows()
    spanning.both(f"insert into events values (9001, {key.cold}, 1, 'late')")
    spanning.both(f"update events set v = v + 1 where k < {key.cold} and id % 3 = 0 returning *")
    spanning.both("delete from events where id % 10 = 4 returning id")
    spanning.both(f"update events set k = {key.moved} where id = 9001 returning *")
    spanning.both(
        f"select count(*), min(k), max(k) from events where k between {key.cold} and (select max(k) from events)"
    )
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    (top,) = [lo for lo, hi in key.bounds if hi == "maxvalue"]
    assert spanning.query(
        f"select count(*) from public.events h where k < {top} and h.tableoid::regclass::text !~ 'spill'"
    ) == [(0,)]
    lake = spanning.spark().sql("select count(*), sum(id) from thermocline.public.events").collect()[0]
    lo, hi = _gap(key)
    expected = spanning.query(
        f"select count(*), sum(i) from (select i, {key.value} as k from generate_series(1, 400) i) g"
        f" where k < {top} and not (k >= {lo} and k < {hi})"
    )
    assert expected == [tuple(lake)]


def _gap(key: Key) -> tuple[str, str]:
    return next((hi, later) for (_, hi), (later, _) in zip(key.bounds, key.bounds[1:], strict=False) if hi != later)


@pytest.mark.conforms("C-177", "C-178")
@pytest.mark.parametrize("zone", ZONES, indirect=True)
@pytest.mark.parametrize("name", ["date", "timestamp", "timestamptz"])
def test_temporal_keys_tier_the_same_rows_whatever_the_time_zone(
    make_spanning: Callable[..., Spanning], name: str, zone: str
) -> None:
    """Server and sessions in the zone; rows around midnight and both daylight-saving edges; comparisons across the
    three types."""
    day = {"date": "'2025-03-09'", "timestamp": "'2025-03-09 00:00'", "timestamptz": "'2025-03-09 00:00+00'"}[name]
    late = {"date": "'2025-11-02'", "timestamp": "'2025-11-02 00:00'", "timestamptz": "'2025-11-02 00:00+00'"}[name]
    end = {"date": "'2025-12-01'", "timestamp": "'2025-12-01 00:00'", "timestamptz": "'2025-12-01 00:00+00'"}[name]
    spanning = make_spanning(
        table=(
            f"create table {{schema}}.events (id bigint not null, k {name} not null, v integer, note text, "
            "primary key (k, id))"
        ),
        partition_by="range (k)",
        partitions=f"create table public.a partition of public.events for values from (minvalue) to ({day});"
        f"create table public.b partition of public.events for values from ({day}) to ({late});"
        f"create table public.c partition of public.events for values from ({late}) to ({end});"
        f"create table public.d partition of public.events for values from ({end}) to (maxvalue);",
        rows="",
    )
    database = spanning.query("select current_database()")[0][0]
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute(f"alter database \"{database}\" set timezone = '{zone}'".encode())
    for session in (spanning.seam, spanning.twin):
        session.execute(f"set timezone = '{zone}'".encode())
    instants = (
        "generate_series(timestamptz '2025-03-08 20:00+00', timestamptz '2025-03-10 12:00+00', interval '30 minutes')"
    )
    autumn = (
        "generate_series(timestamptz '2025-11-01 20:00+00', timestamptz '2025-11-03 12:00+00', interval '30 minutes')"
    )
    spanning.both(
        f"insert into events select row_number() over (order by g), g::{name}, 1, to_char(g, 'HH24') from"
        f" (select {instants} g union all select {autumn} union all select timestamptz '2025-12-05 00:00+00') s"
    )
    spanning.assert_same_rows()
    assert len(spanning.tier().moved) == 3
    spanning.assert_same_rows()
    for literal in (
        "timestamptz '2025-03-09 02:30'",
        "timestamp '2025-03-09 23:00'",
        "date '2025-11-02'",
        "timestamptz '2025-11-02 01:30'",
    ):
        for operator in ("<", ">=", "="):
            spanning.both(f"select id, k, k::text from events where k {operator} {literal}")
    spanning.both("select date_trunc('day', k) d, count(*), min(k), max(k) from events group by 1")
    spanning.both("update events set v = v + 1 where extract(hour from k::timestamp) in (0, 1, 23) returning *")
    spanning.both(f"insert into events values (7001, {day}, 1, 'edge'), (7002, {late}, 1, 'edge') returning *")
    spanning.tier()
    spanning.assert_same_rows()
