"""Hundreds of plain statements and random ones: whoever answers, names, types, bytes, tags and errors are those of an
ordinary table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.gateway.whole_generator import Generator
from tests.gateway.whole_lake import outcome, person
from tests.twin import Spanning

from thermocline.gateway import metrics

STATEMENTS = [
    line
    for line in Path(__file__).with_name("plain_statements.sql").read_text().splitlines()
    if not line.startswith("--")
]
PIECES = 8
RANDOM = max(250, int(os.environ.get("THERMOCLINE_TEST_HISTORIES", "0")))
FEWEST_BY_DUCKDB = 130


def _answered_by_duckdb() -> int:
    return int(metrics.WHOLE_QUERIES.labels("duckdb")._value.get())


@contextmanager
def _sides(lake: Spanning) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    """A person at the gateway, and the twin in Postgres alone."""
    lake.twin.execute("set timezone = 'UTC'")
    with person(lake) as conn:
        yield conn, lake.twin


def _differences(lake: Spanning, statements: list[str], form: int) -> list[str]:
    found = []
    with _sides(lake) as (ours, theirs):
        for statement in statements:
            ordered = " order by " in statement and " over " not in statement
            here, there = (outcome(side, statement, form, ordered=ordered) for side in (ours, theirs))
            if here != there:
                found.append(f"{statement}\n  gateway:  {str(here)[:500]}\n  Postgres: {str(there)[:500]}")
    return found


@pytest.mark.parametrize("piece", range(PIECES))
def test_a_plain_statement_has_the_bytes_of_postgres(lake: Spanning, piece: int) -> None:
    assert not (found := _differences(lake, STATEMENTS[piece::PIECES], 0)), "\n".join(found)


@pytest.mark.parametrize("piece", range(2))
def test_a_plain_statement_has_the_binary_values_of_postgres(lake: Spanning, piece: int) -> None:
    assert not (found := _differences(lake, STATEMENTS[piece::6], 1)), "\n".join(found)


def test_the_battery_is_large_and_duckdb_answers_much_of_it(lake: Spanning) -> None:
    assert len(set(STATEMENTS)) >= 350
    before = _answered_by_duckdb()
    with person(lake) as conn:
        for statement in STATEMENTS:
            conn.pgconn.exec_(statement.encode())
    assert _answered_by_duckdb() - before >= FEWEST_BY_DUCKDB


@pytest.mark.property
def test_random_statements_have_the_bytes_of_postgres(lake: Spanning) -> None:
    """Of an error only its state is compared: which of two errors comes first is nobody's promise."""
    found, before = [], _answered_by_duckdb()
    with _sides(lake) as (ours, theirs):
        for seed in range(RANDOM):
            statement = Generator(seed).statement()
            here, there = outcome(ours, statement), outcome(theirs, statement)
            if here != there and not (here[0] == there[0] == "error" and here[1] == there[1]):
                found.append(f"seed {seed}: {statement}\n  gateway:  {str(here)[:500]}\n  Postgres: {str(there)[:500]}")
    assert not found, "\n".join(found)
    assert _answered_by_duckdb() - before > RANDOM // 4
