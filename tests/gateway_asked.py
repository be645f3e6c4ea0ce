"""Query the gateway directly by a user's login: whole queries with conditions, compared with the twin byte by byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ExecStatus
from tests.conditions import Column, Condition, plan_conditions, render_differences, shorten

from thermocline.gateway.server import GatewayThread

_FEW = 2
_LEFT_TO_POSTGRES = "0A000"


class GatewayAsked:
    """A session through the gateway that only DuckDB may serve; opened at first use."""

    def __init__(self, dsn: str, gateway: GatewayThread) -> None:
        self._dsn, self._gateway = dsn, gateway
        self._conn: psycopg.Connection[Any] | None = None
        self.answered = 0
        """Conditions that DuckDB has answered; what it leaves to Postgres is the seam's."""

    def assert_same_rows(
        self, twin: psycopg.Connection[Any], columns: Sequence[Column], turn: int, *, each: int | None
    ) -> None:
        """Each condition finds the twin's rows. By default two conditions are asked, on other columns each turn."""
        conditions = plan_conditions(columns, turn + 1, each=each)
        if each is None:
            conditions = tuple(conditions[(turn * _FEW + step) % len(conditions)] for step in range(_FEW))
        key = [row[0] for row in twin.execute(_KEY.encode()).fetchall()]
        for condition in conditions:
            self._check(twin, key, condition, turn)

    def _check(self, twin: psycopg.Connection[Any], key: Sequence[str], condition: Condition, turn: int) -> None:
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in (*key, condition.column))
        ours = _fetch_bytes(self._session(), f"select {listed} from public_all.events where {condition.text}")
        if ours is None:
            return
        self.answered += 1
        expected = _fetch_bytes(twin, f"select {listed} from twin.events where {condition.text}")
        assert expected is not None
        missing, surplus = _without(expected, ours), _without(ours, expected)
        if missing or surplus:
            raise AssertionError(
                f"a condition finds other rows through the gateway (turn {turn}): select {listed} where "
                f"{shorten(condition.text)}\n"
                f"{render_differences(missing, surplus)}"
            )

    def _session(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            password = conninfo_to_dict(self._dsn)["password"]
            place = make_conninfo(
                self._dsn, host="127.0.0.1", port=self._gateway.port, password=password, application_name="test"
            )
            self._conn = psycopg.connect(place, autocommit=True)
            self._conn.execute("set thermocline.engine = duckdb")
        return self._conn

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()


Row = tuple[bytes | None, ...]

_KEY = """
select a.attname from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
 where i.indrelid = 'twin.events'::regclass and i.indisprimary"""


def _fetch_bytes(conn: psycopg.Connection[Any], statement: str) -> list[Row] | None:
    """The bytes of a result, or `None` where DuckDB leaves the statement to Postgres."""
    result = conn.pgconn.exec_(statement.encode())
    if result.status != ExecStatus.TUPLES_OK:
        problem = psycopg.errors.error_from_result(result)
        if problem.sqlstate == _LEFT_TO_POSTGRES:
            return None
        raise AssertionError(f"{statement}\n{problem}") from problem
    return [tuple(result.get_value(row, at) for at in range(result.nfields)) for row in range(result.ntuples)]


def _without(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """The multiset difference of the rows."""
    return list((Counter(rows) - Counter(others)).elements())
