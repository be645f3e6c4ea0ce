"""Random histories of DML, tiering and folds: after every step the spanning table equals an ordinary one, at every isolation level.

A history is a list of steps; each runs on both sides, in a transaction that may roll back as a whole or to a savepoint. A failing
history is shrunk by Hypothesis and printed with its seed.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.twin import EVENTS, EVENTS_PARTITIONS, Spanning, run

from thermocline.errors import LockNotGranted
from thermocline.pg import connect, with_database
from thermocline.postgres_server import PostgresServer

HISTORIES = int(os.environ.get("THERMOCLINE_TEST_HISTORIES", "12"))
ROWS = (
    "insert into events (id, ts, v) select i, '2026-01-01 00:00+00'::timestamptz + i * interval '3 days', i from generate_series(1, 39) i"
)

ids = st.integers(min_value=1, max_value=45)
days = st.integers(min_value=-40, max_value=130)
moments = days.map(lambda day: f"'2026-01-01 00:00+00'::timestamptz + {day} * interval '1 day'")


@dataclass(frozen=True)
class Statement:
    text: str


@dataclass(frozen=True)
class Transaction:
    level: str
    statements: tuple[Statement, ...]
    savepoint_after: int | None
    commits: bool


@dataclass(frozen=True)
class Tier:
    """A tiering cycle; `with_reader` holds an older reader open over it."""

    with_reader: bool


@dataclass(frozen=True)
class Fold:
    """A fold of all that waits; `with_reader` holds an older reader open over it."""

    with_reader: bool


def _insert(key: int, moment: str, value: int) -> Statement:
    # A historical insert is an upsert by contract, so the twin is given the same meaning: keys that exist are left out on both sides.
    return Statement(
        f"insert into events (id, ts, v, note) select {key}, {moment}, {value}, 'new'"
        f" where not exists (select 1 from events where id = {key} and ts = {moment}) returning *"
    )


statements = st.one_of(
    st.builds(_insert, st.integers(min_value=100, max_value=140), moments, st.integers(min_value=0, max_value=9)),
    st.builds(
        lambda k, n: Statement(f"update events set v = v + {n}, note = note || '!' where id = {k} returning *"), ids, st.integers(1, 5)
    ),
    st.builds(
        lambda k, w: Statement(f"update events set amount = id / 3.0 where id between {k} and {k + w} returning id, amount"),
        ids,
        st.integers(0, 9),
    ),
    st.builds(lambda k: Statement(f"delete from events where id = {k} returning *"), ids),
    st.builds(
        lambda k, d: Statement(f"update events set ts = ts + {d} * interval '1 day' where id = {k} returning *"), ids, st.integers(-60, 60)
    ),
    st.builds(lambda m: Statement(f"delete from events where ts < {m} and v % 4 = 1 returning id"), moments),
    st.builds(
        lambda k: Statement(f"update events e set v = s.v from (values ({k}, {k + 7})) s (id, v) where e.id = s.id returning e.id, e.v"),
        ids,
    ),
    st.builds(lambda k: Statement(f"update events set v = -1 where id = {k}"), ids),
)
transactions = st.builds(
    Transaction,
    st.sampled_from(["read committed", "repeatable read", "serializable"]),
    st.lists(statements, min_size=1, max_size=4).map(tuple),
    st.one_of(st.none(), st.integers(min_value=0, max_value=3)),
    st.booleans() | st.just(True),
)
steps = st.one_of(transactions, transactions, transactions, st.builds(Tier, st.booleans()), st.builds(Fold, st.booleans()))
histories = st.lists(steps, min_size=3, max_size=9)


@pytest.mark.conforms("C-039", "C-050", "C-067", "C-174", "C-212")
@pytest.mark.timeout(1800)
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(history=histories)
def test_any_history_reads_like_an_ordinary_table(
    postgres: PostgresServer, template: str, history: list[Transaction | Tier | Fold]
) -> None:
    with fresh_spanning(postgres, template) as spanning:
        for step in history:
            if isinstance(step, Tier):
                with_reader(spanning, spanning.tier) if step.with_reader else spanning.tier()
            elif isinstance(step, Fold):
                with_reader(spanning, spanning.fold) if step.with_reader else spanning.fold()
            else:
                perform(spanning, step)
            spanning.assert_same_rows()
        spanning.tier()
        spanning.tier()
        spanning.assert_same_rows()
        spanning.fold()
        spanning.assert_same_rows()


def perform(spanning: Spanning, step: Transaction) -> None:
    """The same transaction on both sides; the same outcomes, statement by statement."""
    ours, twins = (act(conn, step) for conn in (spanning.seam, spanning.twin))
    assert ours == twins, f"{step}\nspanning: {ours}\ntwin:     {twins}"


def act(conn: psycopg.Connection[Any], step: Transaction) -> list[Any]:
    outcomes: list[Any] = []
    conn.execute(f"begin isolation level {step.level}".encode())
    for position, statement in enumerate(step.statements):
        outcome = run(conn, statement.text)
        outcomes.append(outcome)
        if outcome.state != "00000":
            conn.execute("rollback")
            return outcomes
        if position == step.savepoint_after:
            conn.execute("savepoint here")
    if step.savepoint_after is not None and step.savepoint_after < len(step.statements):
        conn.execute("rollback to savepoint here")
    conn.execute("commit" if step.commits else "rollback")
    return outcomes


def with_reader(spanning: Spanning, cycle: Callable[[], object]) -> None:
    """A reader that was there before the cycle sees the same rows during and after it.

    One that has read the seam holds a lock on it, so the cycle may give up on raising the seam's line; it must then have changed nothing.
    """
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    before = reader.execute("select count(*), sum(v), sum(id) from events").fetchall()
    with suppress(LockNotGranted):
        cycle()
    assert reader.execute("select count(*), sum(v), sum(id) from events").fetchall() == before
    spanning.assert_same_rows(reader)
    reader.rollback()
    reader.close()
    spanning.extra.remove(reader)


@contextmanager
def fresh_spanning(postgres: PostgresServer, template: str) -> Iterator[Spanning]:
    name = f"history_{uuid.uuid4().hex[:12]}"
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    with tempfile.TemporaryDirectory() as directory:
        spanning = Spanning.make(
            with_database(postgres.dsn(), name), Path(directory), table=EVENTS, partitions=EVENTS_PARTITIONS, rows=ROWS
        )
        try:
            yield spanning
        finally:
            spanning.close()
            with closing(connect(postgres.dsn(), autocommit=True)) as conn:
                conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
