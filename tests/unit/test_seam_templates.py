"""Filling a template: values first, then parts of the table, then other templates; nothing is scanned twice."""

from __future__ import annotations

import pytest
from psycopg import sql

from thermocline.seam.render import Templates


def render(bodies: dict[str, str], **values: sql.Composable) -> str:
    return Templates(bodies).render("whole", None, **values).as_string()


def test_a_place_is_filled_by_another_template_by_the_same_rule() -> None:
    bodies = {"whole": "select {inner}", "inner": "{number} + {more}", "more": "{number}"}
    assert render(bodies, number=sql.Literal(7)) == "select 7 + 7"


def test_a_value_wins_over_a_template_of_the_same_name() -> None:
    assert render({"whole": "select {inner}", "inner": "1"}, inner=sql.Literal(2)) == "select 2"


def test_a_value_that_looks_like_a_place_is_not_filled() -> None:
    bodies = {"whole": "select {column} from t", "heap": "never"}
    assert render(bodies, column=sql.Identifier("{heap}")) == 'select "{heap}" from t'


def test_a_place_that_nothing_fills_is_an_error() -> None:
    with pytest.raises(KeyError, match="heap"):
        render({"whole": "select * from {heap}"})
