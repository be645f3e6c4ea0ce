"""Durations are read as Postgres reads intervals; Postgres itself is the oracle."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.postgres.conftest import Shop

from thermocline.core.axis import KeyType, parse_duration, render_duration
from thermocline.core.types.intervals import DAY_US, Interval, parse_interval, render_interval

AS_POSTGRES = [
    *("30 days", "1 month", "2 hours 30 minutes", "1 mon", "P30D", "90m", "12h", "7d", "2w", "1 y", "3 yrs", "45 s"),
    *("1 year 2 mons 3 days 04:05:06", "P1Y2M3DT4H5M6S", "PT36H", "P2W", "PT0.5S", "1.5 days", "@ 1 day", "0.5 weeks"),
    *("01:30", "01:30:15.25", "1 day 12:00", "1 decade", "2 centuries", "1 millennium", "250 ms", "7 microseconds"),
    *("1 DAY", "1day 2hours", "1 hour 30 min 15 secs", "36:00:00", "  5   minutes "),
]
UNITS = [
    "s",
    "secs",
    "m",
    "min",
    "minutes",
    "h",
    "hrs",
    "hour",
    "d",
    "days",
    "w",
    "weeks",
    "mon",
    "months",
    "y",
    "years",
]


def as_postgres(conn: psycopg.Connection[tuple[object, ...]], text: str) -> Interval | None:
    """Months, days and microseconds of an interval, as Postgres has it; None when it refuses the text."""
    try:
        with conn.transaction():
            row = conn.execute(
                "select (extract(year from i) * 12 + extract(month from i))::bigint, extract(day from i)::bigint,"
                " (extract(hour from i) * 3600000000 + extract(minute from i) * 60000000"
                "  + extract(microseconds from i))::bigint from (select %s::interval as i) s",
                [text],
            ).fetchone()
    except psycopg.errors.DataError:
        return None
    assert row is not None
    months, days, microseconds = (int(str(part)) for part in row)
    return Interval(months=months, days=days, microseconds=microseconds)


@pytest.mark.parametrize("text", AS_POSTGRES)
def test_an_interval_is_what_postgres_reads(shop: Shop, text: str) -> None:
    assert parse_interval(text) == as_postgres(shop.conn, text)
    assert parse_interval(text) is not None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["1", "2", "36", "100", "0", "1.5", "007"]),
            st.sampled_from(["", " "]),
            st.sampled_from(UNITS),
        ),
        max_size=4,
    ),
    st.sampled_from(["", " 01:02:03", " 5:06", " ago", " -1 day", " 3"]),
)
def test_whatever_is_accepted_postgres_accepts_with_the_same_value(
    shop: Shop, parts: list[tuple[str, str, str]], tail: str
) -> None:
    text = " ".join("".join(part) for part in parts) + tail
    found = parse_interval(text)
    assert found is None or found == as_postgres(shop.conn, text), text


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**15))
def test_a_duration_is_written_as_postgres_writes_it_and_reads_back(shop: Shop, microseconds: int) -> None:
    text = render_interval(microseconds)
    interval = parse_interval(text)
    assert interval is not None
    assert interval.longest_microseconds == microseconds
    days, rest = divmod(microseconds, DAY_US)
    row = shop.conn.execute("select (make_interval(days => %s) + %s * interval '1 microsecond')::text", [days, rest])
    assert row.fetchone() == (text,)


@pytest.mark.parametrize("text", ["1 month", "3 months", "1 year", "4 years 11 months", "P1Y6M"])
@pytest.mark.parametrize("start", ["2023-01-31", "2024-01-31", "2024-02-29", "2026-07-01", "2096-02-29"])
def test_a_month_or_a_year_is_never_shorter_than_the_calendars(shop: Shop, text: str, start: str) -> None:
    """Rows that are a calendar year old must not leave a day early because a year has 366 days sometimes."""
    days = parse_duration(KeyType.DATE, text)
    row = shop.conn.execute("select (%s::date + %s::interval)::date - %s::date", [start, text, start]).fetchone()
    assert row is not None
    assert days >= int(str(row[0]))
    assert render_duration(KeyType.DATE, days) == f"{days} days"
