"""The axis as Postgres computes it, against the text this program renders; and names, against Postgres' own scanner."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.postgres.conftest import Shop

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, render_axis
from thermocline.core.names import parse_table_name
from thermocline.errors import BadTableName

FUNCTIONS = {KeyType.DATE: "key_date", KeyType.TIMESTAMP: "key_timestamp", KeyType.TIMESTAMPTZ: "key_timestamptz"}
DAYS = st.integers(-2_440_588, 2_145_031_948)
MICROSECONDS = st.integers(-210_866_803_200_000_000, AXIS_MAX - 1)
ENDS = st.sampled_from([AXIS_MIN, AXIS_MAX])
once = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_back(shop: Shop, kind: KeyType, place: int) -> tuple[int, int]:
    """The place by its text form and by the function that makes the key of it, each put on the axis again."""
    query = f"select thermocline.axis(%s::text::{kind.value}), thermocline.axis(thermocline.{FUNCTIONS[kind]}(%s))"
    row = shop.conn.execute(query.encode(), [render_axis(kind, place), place]).fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.mark.conforms("C-016")
@once
@given(st.sampled_from([KeyType.TIMESTAMP, KeyType.TIMESTAMPTZ]), st.one_of(MICROSECONDS, ENDS))
@example(KeyType.TIMESTAMPTZ, -62_135_596_800_000_001)
def test_every_timestamp_comes_back_from_the_axis(shop: Shop, kind: KeyType, place: int) -> None:
    assert read_back(shop, kind, place) == (place, place)


@pytest.mark.conforms("C-016")
@once
@given(st.one_of(DAYS, ENDS))
def test_every_date_comes_back_from_the_axis(shop: Shop, place: int) -> None:
    assert read_back(shop, KeyType.DATE, place) == (place, place)


@pytest.mark.conforms("C-016")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("smallint", ["-32768", "0", "32767"]),
        ("bigint", ["-9223372036854775808", "-1", "9223372036854775807"]),
        ("date", ["-infinity", "4714-11-24 BC", "0001-01-01", "5874897-12-31", "infinity"]),
        (
            "timestamp",
            [
                "-infinity",
                "4714-11-24 00:00 BC",
                "2026-01-01",
                "294246-12-31",
                "294276-12-31 23:59:59.999999",
                "infinity",
            ],
        ),
        (
            "timestamptz",
            ["-infinity", "2026-01-01 00:00+02", "2026-01-01 00:00+00", "294276-12-31 23:59:59.999999+00", "infinity"],
        ),
    ],
)
def test_the_axis_keeps_the_order_up_to_the_last_year_postgres_knows(shop: Shop, kind: str, values: list[str]) -> None:
    query = f"select thermocline.axis(v::{kind}) from unnest(%s::text[]) with ordinality u(v, n) order by n"
    places = [row[0] for row in shop.conn.execute(query.encode(), [values])]
    assert places == sorted(set(places))


@once
@given(st.one_of(st.text('aZ_é "."$1\t ', min_size=3, max_size=10), st.just(" ÉTÉ.Ab ")))
def test_a_table_name_is_read_as_postgres_reads_it(shop: Shop, text: str) -> None:
    try:
        theirs = shop.conn.execute("select parse_ident(%s)", [text]).fetchone()
    except psycopg.errors.InvalidParameterValue:
        theirs = None
    try:
        ours = parse_table_name(text)
    except BadTableName:
        assert theirs is None or len(theirs[0]) != 2
    else:
        assert theirs == ([ours.schema, ours.table],)
