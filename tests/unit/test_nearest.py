"""The nearest right name of a wrong one."""

from __future__ import annotations

import pytest

from thermocline.core.messages.nearest import find_nearest, render_nearest

ENGINES = ("auto", "duckdb", "postgres")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("dukdb", "duckdb"), ("Postgres", "postgres"), (" duckdb ", "duckdb"), ("abacus", None), ("", None)],
)
def test_a_slip_of_the_fingers_finds_the_name_that_was_meant(given: str, meant: str | None) -> None:
    assert find_nearest(given, ENGINES) == meant


def test_where_nothing_is_near_the_names_there_are_listed_and_many_are_cut() -> None:
    assert render_nearest("abacus", ENGINES) == "There are auto, duckdb, postgres."
    assert render_nearest("abacus", ["one"]) == "There is one."
    assert render_nearest("abacus", [], otherwise="Make one.") == "Make one."
    assert render_nearest("zzz", [f"table {n}" for n in range(40)]).endswith(", table 11 and 28 more.")
