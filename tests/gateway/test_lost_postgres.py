"""Postgres sessions of the gateway that end under it: terminated while idle, in the middle of a read, or with the
server. The gateway goes on, and so does everybody else on it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.gateway.conftest import PASSWORD, make_template
from tests.gateway.gateway_program import GatewayProgram, start_program
from tests.gateway.whole_lake import open_lake
from tests.twin import Spanning

from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

GROUPS = "select shop, count(*), sum(qty), min(ts) from events group by shop order by shop"
JOINED = "select count(*), sum(b.n) from events e join ballast b on b.id = e.id where e.shop >= 0"


@pytest.fixture(scope="module")
def server(clusters: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(clusters / "lost", free_port(), FAST_TEST_SETTINGS, password=PASSWORD)
    server.init()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def spanning(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    """A spanning table and its twin on a Postgres that the tests stop, with an ordinary table beside it that takes a
    while to read."""
    make_template(server)
    with open_lake(server.dsn("gateway_template"), tmp_path_factory.mktemp("lost")) as made:
        with psycopg.connect(made.dsn, autocommit=True) as conn:
            for schema in ("public", "twin"):
                conn.execute(
                    f"create table {schema}.ballast as select i as id, i % 7 as n, repeat('x', 200) as filler"
                    " from generate_series(1, 600000) i"
                )
            conn.execute("analyze")
        yield made


@pytest.fixture
def program(spanning: Spanning) -> Iterator[GatewayProgram]:
    with start_program(spanning.dsn) as program:
        yield program
        assert program.process.poll() is None, "the gateway died"


@contextmanager
def _person(program: GatewayProgram, engine: str = "duckdb") -> Iterator[psycopg.Connection[Any]]:
    dsn = make_conninfo(program.dsn, host="127.0.0.1", port=program.port, password=PASSWORD)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "select set_config('search_path', 'public_all, public', false), set_config('timezone', 'UTC', false),"
            " set_config('thermocline.engine', %s, false)",
            (engine,),
        )
        yield conn


def _expected(server: PostgresServer, query: str) -> list[Any]:
    with psycopg.connect(server.dsn("gateway_template"), autocommit=True) as conn:
        conn.execute("select set_config('search_path', 'twin', false), set_config('timezone', 'UTC', false)")
        return conn.execute(query.encode()).fetchall()


def _terminate_own_sessions(server: PostgresServer) -> int:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        ended = conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'thermocline gateway'"
        ).fetchall()
    return len(ended)


def test_a_pooled_session_that_was_terminated_fails_no_statement(
    server: PostgresServer, spanning: Spanning, program: GatewayProgram
) -> None:
    with _person(program) as conn:
        for _ in range(3):
            assert conn.execute(GROUPS).fetchall() == _expected(server, GROUPS)
            assert _terminate_own_sessions(server) > 0
        assert conn.execute(GROUPS).fetchall() == _expected(server, GROUPS)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_first_whole_query_after_a_restart_of_postgres_is_answered(
    server: PostgresServer, spanning: Spanning, program: GatewayProgram, mode: Literal["fast", "immediate"]
) -> None:
    with _person(program) as conn:
        assert conn.execute(GROUPS).fetchall() == _expected(server, GROUPS)
        server.stop(mode)
        server.start()
        with pytest.raises(psycopg.OperationalError):
            conn.execute(GROUPS)
    with _person(program) as conn:
        assert conn.execute(GROUPS).fetchall() == _expected(server, GROUPS)


def test_a_session_terminated_in_the_middle_of_a_read_ends_neither_the_gateway_nor_the_client(
    server: PostgresServer, spanning: Spanning, program: GatewayProgram
) -> None:
    expected = _expected(server, JOINED)
    for _ in range(3):
        with _person(program, "auto") as conn:
            stopped = threading.Event()
            terminator = threading.Thread(target=_terminate_while_reading, args=(server, stopped))
            terminator.start()
            try:
                # Postgres answers what DuckDB could not finish. If the session ends between two messages, ADBC aborts
                # the executor, and that is the statement's error.
                assert conn.execute(JOINED).fetchall() == expected
            except psycopg.errors.SystemError as crashed:
                if "TC513" not in str(crashed):
                    raise
            finally:
                stopped.set()
                terminator.join()
            assert conn.execute(GROUPS).fetchall() == _expected(server, GROUPS)


def _terminate_while_reading(server: PostgresServer, stopped: threading.Event) -> None:
    """Terminate every session of the gateway that reads rows, until told to stop."""
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        while not stopped.is_set():
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'thermocline gateway' and state = 'active' and query like '%ballast%'"
            )
            time.sleep(0.002)


def test_an_executor_killed_in_the_middle_of_a_whole_query_fails_that_statement_alone(
    server: PostgresServer, spanning: Spanning, program: GatewayProgram
) -> None:
    with _person(program) as conn, _person(program) as other, ThreadPoolExecutor(1) as people:
        asked = people.submit(conn.execute, JOINED)
        _wait_until_read(server)
        for executor in program.executors():
            executor.send_signal(signal.SIGSEGV)
        with pytest.raises(psycopg.Error, match=r"TC513.*SIGSEGV") as told:
            asked.result(60)
        assert told.value.sqlstate == "58000"
        for session in (conn, other):
            assert session.execute(GROUPS).fetchall() == _expected(server, GROUPS)
        assert conn.execute(JOINED).fetchall() == _expected(server, JOINED)


def _wait_until_read(server: PostgresServer) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        for _ in range(5000):
            reading = "state = 'active' and query like '%ballast%' and application_name = 'thermocline gateway'"
            if conn.execute(f"select from pg_stat_activity where {reading}".encode()).fetchall():
                return
            time.sleep(0.002)
    raise AssertionError("nobody reads")


def test_a_restart_of_postgres_under_load_ends_no_gateway_and_gives_no_wrong_rows(
    server: PostgresServer, spanning: Spanning, program: GatewayProgram
) -> None:
    expected = {query: _expected(server, query) for query in (GROUPS, JOINED)}
    is_over = threading.Event()

    def ask(query: str) -> None:
        while not is_over.is_set():
            try:
                with _person(program, "auto") as conn:
                    while not is_over.is_set():
                        assert conn.execute(query.encode()).fetchall() == expected[query]
                        answered.release()
            except psycopg.Error:
                time.sleep(0.05)

    answered = threading.Semaphore(0)
    with ThreadPoolExecutor(4) as people:
        asking = [people.submit(ask, query) for query in (GROUPS, JOINED) * 2]
        try:
            for _ in range(2):
                assert answered.acquire(timeout=60)
                server.stop("immediate")
                server.start()
            assert answered.acquire(timeout=60)
        finally:
            is_over.set()
        for task in asking:
            task.result(60)
    with _person(program) as conn:
        for query, rows in expected.items():
            assert conn.execute(query.encode()).fetchall() == rows
