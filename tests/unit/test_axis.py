"""Durations and the text of places on the axis; what Postgres makes of them stands in tests/postgres/test_axis.py."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.axis import AXIS_MAX, AXIS_MIN, KeyType, parse_duration, render_axis
from thermocline.errors import BadDuration

TEMPORAL = [KeyType.TIMESTAMP, KeyType.TIMESTAMPTZ]
INTEGERS = [KeyType.SMALLINT, KeyType.INTEGER, KeyType.BIGINT]


@pytest.mark.conforms("C-017")
@pytest.mark.parametrize(
    ("kind", "text", "units"),
    [
        (KeyType.BIGINT, "0", 0),
        (KeyType.SMALLINT, "1000", 1000),
        (KeyType.INTEGER, " 7 ", 7),
        (KeyType.DATE, "7d", 7),
        (KeyType.DATE, "2w", 14),
        (KeyType.DATE, "48h", 2),
        (KeyType.DATE, "0", 0),
        (KeyType.TIMESTAMP, "90s", 90_000_000),
        (KeyType.TIMESTAMPTZ, "5m", 300_000_000),
        (KeyType.TIMESTAMPTZ, "12 h", 43_200_000_000),
        (KeyType.TIMESTAMPTZ, "0", 0),
        (KeyType.TIMESTAMPTZ, "1.5d", 129_600_000_000),
        (KeyType.TIMESTAMPTZ, "2 hours 30 minutes", 9_000_000_000),
        (KeyType.DATE, "1 month", 31),
        (KeyType.DATE, "1 year", 366),
        (KeyType.DATE, "P30D", 30),
    ],
)
def test_a_duration_is_read_in_the_keys_own_units(kind: KeyType, text: str, units: int) -> None:
    assert parse_duration(kind, text) == units


@pytest.mark.conforms("C-017")
@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (KeyType.DATE, "12h", "'12h' is finer than the tier key, which is a date."),
        (KeyType.DATE, "90s", "'90s' is finer than the tier key, which is a date."),
        (KeyType.BIGINT, "7d", "'7d' has a time unit, but the tier key is bigint."),
        (KeyType.TIMESTAMPTZ, "7", "'7' has no unit, and the tier key is timestamp with time zone."),
        (KeyType.TIMESTAMPTZ, "-7d", "'-7d' is not a duration."),
        (KeyType.TIMESTAMPTZ, "", "'' is not a duration."),
        (KeyType.DATE, "1.5d", "'1.5d' is finer than the tier key, which is a date."),
        (KeyType.TIMESTAMPTZ, "1.5 months", "'1.5 months' is not a duration."),
        (KeyType.TIMESTAMPTZ, "7 lightyears", "'7 lightyears' is not a duration."),
        (KeyType.BIGINT, "٣", "'٣' is not a duration."),
        (KeyType.BIGINT, "1e3", "'1e3' is not a duration."),
        (KeyType.TIMESTAMPTZ, "99999999999999w", "'99999999999999w' is longer than the axis."),
        (KeyType.DATE, "999999999999999999w", "'999999999999999999w' is longer than the axis."),
        (KeyType.BIGINT, "9223372036854775808", "'9223372036854775808' is not a duration."),
    ],
)
def test_what_is_no_duration_of_this_key_is_refused_with_a_hint(kind: KeyType, text: str, sentence: str) -> None:
    with pytest.raises(BadDuration) as refused:
        parse_duration(kind, text)
    assert str(refused.value) == sentence
    assert refused.value.hint
    assert (refused.value.code, refused.value.exit_code) == ("TC202", 2)


def test_a_step_of_a_grid_has_no_months() -> None:
    assert parse_duration(KeyType.DATE, "1 week", is_step=True) == 7
    with pytest.raises(BadDuration, match="'1 month' has months, and a month has no fixed width"):
        parse_duration(KeyType.DATE, "1 month", is_step=True)


@given(st.sampled_from(list(KeyType)), st.text(max_size=12))
def test_any_text_is_a_duration_on_the_axis_or_refused(kind: KeyType, text: str) -> None:
    try:
        assert 0 <= parse_duration(kind, text) <= AXIS_MAX
    except BadDuration:
        return


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_a_timestamp_is_rendered_as_iso_in_utc(moment: dt.datetime) -> None:
    micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    assert dt.datetime.fromisoformat(render_axis(KeyType.TIMESTAMPTZ, micros)) == moment
    assert dt.datetime.fromisoformat(render_axis(KeyType.TIMESTAMP, micros)) == moment.replace(tzinfo=None)


@pytest.mark.parametrize("kind", [KeyType.DATE, *TEMPORAL])
def test_the_ends_of_the_line_are_the_infinities(kind: KeyType) -> None:
    assert render_axis(kind, AXIS_MIN) == "-infinity"
    assert render_axis(kind, AXIS_MAX) == "infinity"


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_are_themselves(kind: KeyType) -> None:
    assert [render_axis(kind, value) for value in (AXIS_MIN, -1, 0, AXIS_MAX)] == [
        str(AXIS_MIN),
        "-1",
        "0",
        str(AXIS_MAX),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (KeyType.DATE, 0, "1970-01-01"),
        (KeyType.DATE, -719_528, "0001-01-01 BC"),
        (KeyType.DATE, -719_162, "0001-01-01"),
        (KeyType.TIMESTAMP, -1, "1969-12-31 23:59:59.999999"),
        (KeyType.TIMESTAMPTZ, 1_500_000, "1970-01-01 00:00:01.5+00"),
        (KeyType.TIMESTAMPTZ, -719_528 * 86_400_000_000, "0001-01-01 00:00:00+00 BC"),
        (KeyType.DATE, 2_932_897, "10000-01-01"),
    ],
)
def test_years_before_christ_and_of_five_digits_are_rendered(kind: KeyType, value: int, text: str) -> None:
    assert render_axis(kind, value) == text
