"""Analyses are kept by their bytes and made at a bounded rate, and literals such as `now` are never analysed."""

from __future__ import annotations

import pytest

from thermocline.gateway.analysis import analysis_queries
from thermocline.gateway.analysis.analysis_cache import AnalysisCache
from thermocline.gateway.analysis.analysis_rate import AnalysisRate
from thermocline.gateway.analysis.canonical_statement import (
    AnalysisKey,
    CanonicalStatement,
    ReadingSettings,
    parse_analysis_row,
)
from thermocline.gateway.analysis.clock_literals import has_clock_literal
from thermocline.gateway.sql.values import NotProvable

SETTINGS = ReadingSettings(
    role="ann",
    path=("pg_catalog", "public"),
    time_zone="UTC",
    date_style="ISO, MDY",
    interval_style="postgres",
    has_standard_strings=True,
    nulls_are_equal=False,
    array_nulls=True,
)


def _key(text: str) -> AnalysisKey:
    return AnalysisKey(text=text, parameter_oids=(), settings=SETTINGS)


def _statement(text: str) -> CanonicalStatement:
    return CanonicalStatement(text=text, relation_oids=(1,), definitions="x", has_own_objects=False)


def test_the_cache_is_bounded_by_bytes_and_forgets_what_is_unused_for_longest() -> None:
    cache = AnalysisCache(max_bytes=100_000)
    for number in range(1_000):
        cache.add(_key(f"select {number}"), _statement("x" * 1_000))
        assert cache.find(_key("select 0")) is not None
        assert cache.held_bytes <= 100_000
    assert cache.find(_key("select 1")) is None
    assert cache.find(_key("select 999")) is not None
    cache.add(_key("long"), _statement("x" * 1_000_000))
    assert cache.find(_key("long")) is None
    assert cache.find(_key("select 999")) is not None  # one that is too large takes nobody's place


def test_a_statement_that_is_added_again_counts_once() -> None:
    cache = AnalysisCache()
    cache.add(_key("a"), _statement("x"))
    before = cache.held_bytes
    cache.add(_key("a"), _statement("x"))
    assert cache.held_bytes == before
    cache.drop(_key("a"))
    assert cache.held_bytes == 0


def test_the_rate_allows_a_burst_and_then_so_many_a_second() -> None:
    rate = AnalysisRate(per_second=10, burst=5)
    assert [rate.allows(100.0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert [rate.allows(100.2) for _ in range(3)] == [True, True, False]
    assert [rate.allows(200.0) for _ in range(6)] == [True] * 5 + [False]


@pytest.mark.parametrize(
    "words",
    [
        "ts < 'now'",
        "ts < ' NOW '",
        "ts < 'now()'",
        "ts < '10:00 today'",
        "ts < $$yesterday$$",
        "ts < $a$tomorrow$a$",
        "day = date 'today'",
        r"ts < E'n\x6fw'",
        "ts < U&'n\\006fw'",
        "ts < 'today10:00'",
    ],
)
def test_a_literal_of_the_clock_is_found(words: str) -> None:
    assert has_clock_literal(f"select 1 from events where {words}")


@pytest.mark.parametrize(
    "words",
    [
        "ts < now()",
        "kind = 'known'",
        '"today" = 1',
        "a = 1 -- now",
        "a = 1 /* 'now' */",
        r"kind like 'a\%'",
        "e.now = 1",
    ],
)
def test_a_word_of_the_clock_outside_a_literal_is_none(words: str) -> None:
    assert not has_clock_literal(f"select 1 from events where {words}")


def test_a_function_takes_no_more_than_a_hundred_parameters_and_only_known_types() -> None:
    assert "int4" in analysis_queries.render_function("select 1", [23] * 100, "pg_temp_3")
    with pytest.raises(NotProvable):
        analysis_queries.render_function("select 1", [23] * 101, "pg_temp_3")
    with pytest.raises(NotProvable):
        analysis_queries.render_function("select 1", [600], "pg_temp_3")


def test_a_body_in_another_form_is_not_read() -> None:
    row = parse_analysis_row(("BEGIN ATOMIC\n SELECT 1;\nEND", "{7,8}", "f", "hash", "77"))
    assert row.statement.text == "SELECT 1"
    assert row.statement.relation_oids == (7, 8)
    for body in (None, "SELECT 1", "RETURN 1", "BEGIN ATOMIC\n SELECT 1; END"):
        with pytest.raises(NotProvable):
            parse_analysis_row((body, "{}", "f", "hash", None))
