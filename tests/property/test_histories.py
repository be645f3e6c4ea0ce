"""Random histories of DML, schema changes, tiering, folds, expiry, premake and maintenance: the spanning table equals
an ordinary one.

A history is a list of steps; each runs on both sides: a transaction, at any isolation level, that may roll back as a
whole or to a savepoint; two transactions interleaved; an ALTER TABLE. Most histories begin at a clone of a tiered table
and need Postgres and the gateway only; some tier, fold and compact as well, half of them on a table whose old rows
expire. Values are awkward ones: long texts, NaN, zeros of both signs, unicode beyond the first plane, decimals of 16
bytes. After each step both tables are asked with conditions on every column. A failing history is shrunk by Hypothesis
and printed with its seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cloned_tables import ClonableTable, make_clonable
from tests.e2e.eager_pass import eager_pass
from tests.external_readers import assert_outside_readers_agree
from tests.extreme_values import FLOATS, LARGE_DECIMALS, MOMENTS, TEXTS, literal
from tests.maintenance_ops import run_compact, run_expire_snapshots
from tests.twin import EVENTS, EVENTS_PARTITIONS, Outcome, Spanning, run

from thermocline.errors import LockNotGranted
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database
from thermocline.runtime.postgres_server import PostgresServer

HISTORIES = int(os.environ.get("THERMOCLINE_TEST_HISTORIES", "200"))
MOVING = max(10, HISTORIES // 20)
CHECKS = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
TABLE = EVENTS.replace(
    "tags text[],", 'tags text[], d double precision, word text collate "C", large numeric(38, 10), at timestamp,'
)
READABLE = tuple(moment for moment in MOMENTS if not moment.endswith("BC"))
"""Statements return rows, and Python has no years before the first."""
AWKWARD = {"d": FLOATS, "word": TEXTS, "note": TEXTS, "large": LARGE_DECIMALS, "at": READABLE}


def _spread(values: tuple[str, ...], kind: str) -> str:
    """A value of the list for most rows, NULL for some."""
    return f"case when i % 5 > 0 then (array[{', '.join(map(literal, values))}])[i % {len(values)} + 1]::{kind} end"


ROWS = (
    "insert into events (id, ts, v, d, word, large, at)"
    f" select i, '2026-01-01 00:00+00'::timestamptz + i * interval '3 days', i, {_spread(FLOATS, 'double precision')},"
    f" {_spread(TEXTS, 'text')}, {_spread(LARGE_DECIMALS, 'numeric')}, {_spread(READABLE, 'timestamp')} from "
    "generate_series(1, 39) i"
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
class Interleaved:
    """A transaction that reads and writes around one that commits in its middle; they change different rows."""

    level: str
    first: Statement
    other: Statement
    second: Statement
    commits: bool


@dataclass(frozen=True)
class Alter:
    """A change of the columns; what it is exactly depends on those there are."""

    kind: str
    pick: int


@dataclass(frozen=True)
class Touch:
    """A write of a column that an earlier step added."""

    pick: int
    key: int
    is_null: bool


@dataclass(frozen=True)
class Tier:
    """A tiering cycle; `with_reader` holds an older reader open over it."""

    with_reader: bool


@dataclass(frozen=True)
class Fold:
    """A fold of all that waits; `with_reader` holds an older reader open over it."""

    with_reader: bool


@dataclass(frozen=True)
class Maintain:
    """Compaction of whatever can be packed, and expiry of every snapshot that nobody needs."""


def _insert(key: int, moment: str, value: int) -> Statement:
    # A historical insert is an upsert by contract, so the twin is given the same meaning: keys that exist are left out
    # on both sides.
    return Statement(
        f"insert into events (id, ts, v, note) select {key}, {moment}, {value}, 'new'"
        f" where not exists (select 1 from events where id = {key} and ts = {moment}) returning *"
    )


statements = st.one_of(
    st.builds(_insert, st.integers(min_value=100, max_value=140), moments, st.integers(min_value=0, max_value=9)),
    st.builds(
        lambda k, n: Statement(f"update events set v = v + {n}, note = note || '!' where id = {k} returning *"),
        ids,
        st.integers(1, 5),
    ),
    st.builds(
        lambda k, w: Statement(
            f"update events set amount = id / 3.0 where id between {k} and {k + w} returning id, amount"
        ),
        ids,
        st.integers(0, 9),
    ),
    st.builds(lambda k: Statement(f"delete from events where id = {k} returning *"), ids),
    st.builds(
        lambda k, d: Statement(f"update events set ts = ts + {d} * interval '1 day' where id = {k} returning *"),
        ids,
        st.integers(-60, 60),
    ),
    st.builds(lambda m: Statement(f"delete from events where ts < {m} and v % 4 = 1 returning id"), moments),
    st.builds(
        lambda k: Statement(
            f"update events e set v = s.v from (values ({k}, {k + 7})) s (id, v) where e.id = s.id returning e.id, e.v"
        ),
        ids,
    ),
    st.builds(lambda k: Statement(f"update events set v = -1 where id = {k}"), ids),
    st.sampled_from([(name, value) for name, values in AWKWARD.items() for value in (*values, None)]).flatmap(
        lambda chosen: st.builds(
            lambda k, w: Statement(
                f"update events set {chosen[0]} = {literal(chosen[1])} where id between {k} and {k + w} returning *"
            ),
            ids,
            st.integers(0, 3),
        )
    ),
)
transactions = st.builds(
    Transaction,
    st.sampled_from(["read committed", "repeatable read", "serializable"]),
    st.lists(statements, min_size=1, max_size=4).map(tuple),
    st.one_of(st.none(), st.integers(min_value=0, max_value=3)),
    st.booleans() | st.just(True),
)
odd = st.integers(min_value=0, max_value=21).map(lambda n: 2 * n + 1)
even = st.integers(min_value=0, max_value=21).map(lambda n: 2 * n)


def _change_of(keys: st.SearchStrategy[int]) -> st.SearchStrategy[Statement]:
    return st.one_of(
        st.builds(
            lambda k, n: Statement(f"update events set v = v + {n} where id = {k} returning *"), keys, st.integers(1, 5)
        ),
        st.builds(lambda k: Statement(f"delete from events where id = {k} returning id"), keys),
        st.builds(lambda k, m: _insert(200 + k, m, k), keys, moments),
    )


interleaved = st.builds(
    Interleaved,
    st.sampled_from(["read committed", "repeatable read"]),
    _change_of(odd),
    _change_of(even),
    _change_of(odd),
    st.booleans(),
)
alters = st.builds(
    Alter, st.sampled_from(["add", "add", "drop", "rename", "widen"]), st.integers(min_value=0, max_value=11)
)
touches = st.builds(Touch, st.integers(min_value=0, max_value=5), ids, st.booleans())
still_steps = st.one_of(transactions, transactions, interleaved, alters, touches)
moving_steps = st.one_of(
    transactions,
    transactions,
    interleaved,
    alters,
    touches,
    st.builds(Tier, st.booleans()),
    st.builds(Fold, st.booleans()),
    st.builds(Maintain),
)
Step = Transaction | Interleaved | Alter | Touch | Tier | Fold | Maintain
# An ordinary table that refuses rows below the line as every write path of the spanning one does.
TWIN_LINE = """
create function twin.refuse_expired() returns trigger language plpgsql as $$
begin
    if thermocline.axis(new.ts) < (select r.line from thermocline.retention r) then raise check_violation; end if;
    return new;
end $$;
create trigger refuse_expired before insert or update on twin.events for each row
    execute function twin.refuse_expired();
"""


@dataclass(slots=True)
class Columns:
    """The columns that may change: those that were added, and what may still be widened."""

    added: list[str] = field(default_factory=list)
    made: int = 0
    widenings: list[str] = field(
        default_factory=lambda: ["alter column v type bigint", "alter column amount type numeric(20, 2)"]
    )

    def plan(self, step: Alter) -> str | None:
        """The text of the change, if there is anything to change."""
        if step.kind == "add":
            self.made += 1
            kinds = (
                "integer",
                "integer default 7",
                "text default 'x'",
                "boolean not null default true",
                "numeric(9, 2) default 1",
                "int2",
            )
            self.added.append(f"x{self.made}")
            return f"add column {self.added[-1]} {kinds[step.pick % len(kinds)]}"
        if step.kind == "widen":
            return self.widenings.pop(step.pick % len(self.widenings)) if self.widenings else None
        if not self.added:
            return None
        at = step.pick % len(self.added)
        if step.kind == "drop":
            return f"drop column {self.added.pop(at)}"
        self.made += 1
        was, self.added[at] = self.added[at], f"x{self.made}"
        return f"rename column {was} to {self.added[at]}"


@pytest.fixture(scope="module")
def untiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    choices: dict[str, Any] = {
        "table": TABLE,
        "partitions": EVENTS_PARTITIONS,
        "rows": ROWS,
        "cycles": 0,
        "premake": None,
    }
    with make_clonable(postgres, template, tmp_path_factory.mktemp("untiered"), **choices) as made:
        yield made


@pytest.fixture(scope="module")
def expiring(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    choices: dict[str, Any] = {
        "table": TABLE,
        "partitions": EVENTS_PARTITIONS,
        "rows": ROWS,
        "cycles": 0,
        "lake_retention": "40d",
    }
    with make_clonable(postgres, template, tmp_path_factory.mktemp("expiring"), **choices) as made:
        with connect(with_database(postgres.dsn(), made.database), autocommit=True) as conn:
            conn.execute(TWIN_LINE.encode())
        yield made


@pytest.fixture(scope="module")
def tiered(
    postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClonableTable]:
    choices: dict[str, Any] = {"table": TABLE, "partitions": EVENTS_PARTITIONS, "rows": ROWS}
    with make_clonable(postgres, template, tmp_path_factory.mktemp("tiered"), **choices) as made:
        yield made


@pytest.mark.conforms("C-039", "C-050", "C-067", "C-174", "C-212")
@pytest.mark.timeout(7200)
@settings(CHECKS, max_examples=HISTORIES - MOVING)
@given(history=st.lists(still_steps, min_size=2, max_size=5))
def test_any_history_over_both_tiers_reads_like_an_ordinary_table(tiered: ClonableTable, history: list[Step]) -> None:
    with tiered.clone() as spanning:
        check_history(spanning, history)


@pytest.mark.conforms("C-039", "C-067", "C-174", "C-212")
@pytest.mark.timeout(7200)
@settings(CHECKS, max_examples=MOVING // 2)
@given(history=st.lists(moving_steps, min_size=3, max_size=8))
def test_any_history_with_rows_on_the_move_reads_like_an_ordinary_table(
    untiered: ClonableTable, history: list[Step]
) -> None:
    """Partitions are made ahead, too."""
    with untiered.clone() as spanning:
        check_history(spanning, [*history, Tier(False), Tier(False), Fold(False)])
        assert_everybody_agrees(spanning)


@pytest.mark.conforms("C-039", "C-067", "C-174", "C-212")
@pytest.mark.timeout(7200)
@settings(CHECKS, max_examples=MOVING // 2)
@given(history=st.lists(moving_steps, min_size=3, max_size=8))
def test_any_history_with_rows_that_expire_reads_like_an_ordinary_table_without_them(
    expiring: ClonableTable, history: list[Step]
) -> None:
    with expiring.clone() as spanning:
        check_history(spanning, [*history, Tier(False), Fold(False), Tier(False)])
        assert_everybody_agrees(spanning)
        assert spanning.query("select r is not null from thermocline.cutline") == [(True,)]


def check_history(spanning: Spanning, history: list[Step]) -> None:
    columns = Columns()
    for step in history:
        match step:
            case Tier():
                with_reader(spanning, spanning.tier) if step.with_reader else spanning.tier()
                spanning.twin.execute(
                    "delete from events where thermocline.axis(ts) < (select c.r from thermocline.cutline c)"
                )
            case Fold():
                with_reader(spanning, spanning.fold) if step.with_reader else spanning.fold()
            case Maintain():
                maintain(spanning)
            case Transaction():
                perform(spanning, step)
            case Interleaved():
                ours, twins = (interleave(spanning, path, step) for path in ("public_all, public", "twin"))
                assert ours == twins, f"{step}\nspanning: {ours}\ntwin:     {twins}"
            case Alter():
                if change := columns.plan(step):
                    spanning.alter(change)
            case Touch():
                if columns.added:
                    name = columns.added[step.pick % len(columns.added)]
                    value = "null" if step.is_null else "default"
                    spanning.both(f"update events set {name} = {value} where id = {step.key} returning *")
        spanning.assert_same_rows()


def assert_everybody_agrees(spanning: Spanning) -> None:
    """Conditions of every kind on every column, through the seam and the gateway, and by the engines that read the lake
    alone."""
    spanning.assert_same_rows(each=1)
    assert_outside_readers_agree(
        spanning.spark(), spanning.name, turn=spanning.turn, engines=("duckdb", "pyiceberg", "spark")
    )


def maintain(spanning: Spanning) -> None:
    if spanning.query("select s is not null from thermocline.cutline") == [(True,)]:
        with eager_pass(spanning, rewrite_min_input_files=2) as context:
            run_compact(context)
            run_expire_snapshots(context)


def interleave(spanning: Spanning, path: str, step: Interleaved) -> list[Outcome]:
    """What each statement and each look gave, on one side."""
    outer, inner = spanning.session(path, autocommit=True), spanning.session(path, autocommit=True)
    look = "select count(*), sum(v), sum(id) from events"
    outer.execute(f"begin isolation level {step.level}".encode())
    outcomes = [run(outer, look), run(outer, step.first.text), run(inner, step.other.text), run(outer, look)]
    outcomes += [run(outer, step.second.text), run(outer, look)]
    outer.execute("commit" if step.commits else "rollback")
    for conn in (outer, inner):
        conn.close()
        spanning.extra.remove(conn)
    return outcomes


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

    One that has read the seam holds a lock on it, so the cycle may give up on raising the seam's line; it must then
    have changed nothing.
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
