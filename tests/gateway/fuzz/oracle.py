"""Runs a statement on the gateway and on ordinary tables, and says whether the answers differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import psycopg
from psycopg import pq
from tests.gateway.fuzz.channels import Answer, ask
from tests.gateway.fuzz.odd_table import ORDERS, OTHER_PLANS
from tests.gateway.fuzz.pieces import is_ordered, render
from tests.gateway.fuzz.statements import Case
from tests.gateway.whole_lake import through
from tests.twin import Spanning

from thermocline.gateway import metrics

TIMEOUT_SECONDS = 3
_UNDECIDED = frozenset({b"57014", b"53200", b"54001"})
"""Cancelled by the timeout, out of memory, out of stack: these depend on the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A statement that the gateway answered otherwise than Postgres."""

    case: Case
    gateway: Answer
    postgres: Answer

    def __str__(self) -> str:
        rendered = render(self.case.statement)
        form = f"{self.case.channel}{' binary' if self.case.is_binary else ''}"
        given = "".join(f"\n  ${at + 1}: {argument}" for at, argument in enumerate(rendered.arguments))
        return (
            f"number {self.case.number}, {form}, {dict(self.case.settings)}, path {self.case.path}\n"
            f"  {rendered.sql}{given}\n  gateway:  {str(self.gateway)[:600]}\n  Postgres: {str(self.postgres)[:600]}"
        )


@dataclass(slots=True)
class Tally:
    """What became of the statements of a run."""

    statements: int = 0
    answered_by_duckdb: int = 0
    left_to_postgres: int = 0
    errors: int = 0
    undecided: int = 0
    without_one_answer: int = 0

    def __str__(self) -> str:
        return (
            f"{self.statements} statements: {self.answered_by_duckdb} answered by DuckDB,"
            f" {self.left_to_postgres} left to Postgres by the gateway, {self.errors} errors,"
            f" {self.undecided} cut off by limits, {self.without_one_answer} without one answer in Postgres"
        )


class Oracle:
    """Sessions on every side, with the same settings."""

    def __init__(self, table: Spanning) -> None:
        self._table = table
        self._sessions: dict[str, psycopg.Connection[Any]] = {}
        self._state: dict[str, tuple[Mapping[str, str], str]] = {}
        self.tally = Tally()

    def close(self) -> None:
        for conn in self._sessions.values():
            conn.close()

    def compare(self, case: Case) -> Difference | None:
        """Runs the statement on both sides; None where the answers are the same, or where Postgres has several."""
        self.tally.statements += 1
        before, left = _answered("duckdb"), _answered("postgres")
        ours, theirs = self._ask("gateway", case), self._ask("twin", case)
        self.tally.answered_by_duckdb += _answered("duckdb") - before
        self.tally.left_to_postgres += _answered("postgres") - left
        self.tally.errors += bool(theirs.state)
        if {ours.state, theirs.state} & _UNDECIDED:
            self.tally.undecided += 1
            return None
        if ours == theirs or (ours.unordered() == theirs.unordered() and not is_ordered(case.statement)):
            return None
        return self._judge(case, ours, theirs)

    def differs(self, case: Case) -> Difference | None:
        """As `compare`, without counting."""
        kept, self.tally = self.tally, Tally()
        try:
            return self.compare(case)
        finally:
            self.tally = kept

    def _judge(self, case: Case, ours: Answer, theirs: Answer) -> Difference | None:
        """Whether Postgres gives one answer whatever the order of rows; and that the gateway's is another one."""
        others = [self._ask(schema, case) for schema in ORDERS]
        if any(other.unordered() != theirs.unordered() for other in others):
            self.tally.without_one_answer += 1
            return None
        if any(other != theirs for other in others) and ours.unordered() == theirs.unordered():
            return None
        if (ours.state or theirs.state) and self._is_up_to_the_plan(case, ours, theirs):
            self.tally.without_one_answer += 1
            return None
        return Difference(case=case, gateway=ours, postgres=theirs)

    def _is_up_to_the_plan(self, case: Case, ours: Answer, theirs: Answer) -> bool:
        """Whether a plan of Postgres' own could meet the gateway's error, or none: the view has another plan, and a row
        that a join drops may be computed with first or not at all."""
        dropped = " join " in render(case.statement).sql and theirs.state.startswith(b"22") and not ours.state
        return dropped or self._ask("seam", case) == ours

    def _ask(self, side: str, case: Case) -> Answer:
        conn = self._session(side, case)
        answer = ask(conn, case)
        if conn.pgconn.status != pq.ConnStatus.OK:
            conn.close()
            del self._sessions[side], self._state[side]
            return replace(answer, state=b"closed", message=f"connection lost: {answer.message}")
        return answer

    def _session(self, side: str, case: Case) -> psycopg.Connection[Any]:
        wanted = (case.settings, case.path)
        if side not in self._sessions:
            dsn = through(self._table) if side == "gateway" else self._table.dsn
            self._sessions[side] = psycopg.connect(dsn, autocommit=True)
        conn = self._sessions[side]
        if self._state.get(side) != wanted:
            schemas = "public_all, public" if side in ("gateway", "seam") else side
            settings = {**case.settings, "search_path": case.path.format(schemas)}
            settings["statement_timeout"] = f"{TIMEOUT_SECONDS}s"
            settings |= OTHER_PLANS.get(side, {})
            for name, value in settings.items():
                conn.pgconn.exec_(f"set {name} = {_setting(name, value)}".encode())
            self._state[side] = wanted
        return conn


def _setting(name: str, value: str) -> str:
    return value if name == "search_path" else "'" + value.replace("'", "''") + "'"


def _answered(engine: str) -> int:
    return int(metrics.WHOLE_QUERIES.labels(engine)._value.get())


@contextmanager
def open_oracle(table: Spanning) -> Iterator[Oracle]:
    oracle = Oracle(table)
    try:
        yield oracle
    finally:
        oracle.close()


class BinaryForms:
    """Values in Postgres' own binary form, asked of Postgres once each."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        self._found: dict[tuple[str, str], bytes | None] = {}

    def __call__(self, kind: str, value: str) -> bytes | None:
        if (kind, value) not in self._found:
            result = self._conn.pgconn.exec_params(
                b"select $1", [value.encode()], param_types=[self._oids[kind]], result_format=1
            )
            found = result.get_value(0, 0) if result.status == pq.ExecStatus.TUPLES_OK else None
            self._found[kind, value] = found
        return self._found[kind, value]

    @cached_property
    def _oids(self) -> dict[str, int]:
        rows = self._conn.execute(
            "select typname, oid::int from pg_type where typnamespace = 'pg_catalog'::regnamespace"
        )
        return dict(rows.fetchall())
