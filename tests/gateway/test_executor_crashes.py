"""Executors that crash, are killed, stop reacting or are all in use: one session notices, and it goes on."""

from __future__ import annotations

import resource
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import psutil
import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from tests.gateway.conftest import Site
from tests.gateway.gateway_program import GatewayProgram, start_program

from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.executor.memory_limits import MemoryLimits
from thermocline.gateway.server import start_in_thread

ROWS = 1_200_000
COLUMNS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "note", StringType(), required=False))


@pytest.fixture(scope="module")
def tables(shared_site: Site) -> dict[str, int]:
    """Two tables of the lake, and the snapshot of each."""
    ids = np.random.default_rng(3).permutation(ROWS)
    rows = pa.table({"id": pa.array(ids), "note": pa.array([f"note {i} of many, all of them longer" for i in ids])})
    for name in ("victims", "others"):
        shared_site.lake.create(name, COLUMNS)
    return {name: shared_site.lake.append(name, rows) for name in ("victims", "others")}


@pytest.fixture
def program(shared_site: Site) -> Iterator[GatewayProgram]:
    with start_program(shared_site.dsn) as program:
        yield program
        assert program.process.poll() is None, "the gateway died"


def _connected(site: Site, port: int, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    return psycopg.connect(make_conninfo(site.direct_dsn(), port=port), autocommit=autocommit)


def _select(tables: dict[str, int], name: str, columns: str = "id, note") -> str:
    return f"select {columns} from public.{name} where _snapshot = {tables[name]}"


def _executor_of(program: GatewayProgram, site: Site, table: str) -> psutil.Process:
    """The executor that has a file of the table open."""
    files = {str(path) for path in site.lake.files(table)}
    for _ in range(1000):
        for executor in program.executors():
            try:
                if files & {file.path for file in executor.open_files()}:
                    return executor
            except psutil.Error:
                continue
        time.sleep(0.005)
    raise AssertionError(f"no executor reads {table}")


def _metric(program: GatewayProgram, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{program.http_port}/metrics", timeout=15) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_crash_ends_one_statement_while_ten_other_sessions_stream_and_idle(
    shared_site: Site, tables: dict[str, int], program: GatewayProgram, number: signal.Signals
) -> None:
    crashed = threading.Event()

    def stream_across_the_crash() -> int:
        with _connected(shared_site, program.port) as conn:
            rows = conn.cursor().stream(_select(tables, "others", "id"))
            total = next(rows)[0]
            begun.release()
            assert crashed.wait(60)
            return int(total + sum(row[0] for row in rows))

    begun = threading.Semaphore(0)
    with ExitStack() as idle, ThreadPoolExecutor(3) as people, _connected(shared_site, program.port) as victim:
        sessions = [idle.enter_context(_connected(shared_site, program.port)) for _ in range(7)]
        streaming = [people.submit(stream_across_the_crash) for _ in range(3)]
        for _ in streaming:
            assert begun.acquire(timeout=60)
        rows = victim.cursor().stream(_select(tables, "victims"))
        next(rows)
        _executor_of(program, shared_site, "victims").send_signal(number)
        with pytest.raises(psycopg.Error, match=f"TC513.*{number.name}") as told:
            sum(1 for _ in rows)
        crashed.set()
        assert told.value.sqlstate == "58000"
        assert victim.execute(_select(tables, "victims", "count(*)")).fetchone() == (ROWS,)
        assert [stream.result(120) for stream in streaming] == [ROWS * (ROWS - 1) // 2] * 3
        for session in sessions:
            assert session.execute(_select(tables, "others", "count(*)")).fetchone() == (ROWS,)
    assert _metric(program, "thermocline_gateway_executor_crashes_total") == 1
    assert _metric(program, 'thermocline_gateway_queries_total{outcome="crashed"}') == 1


def test_a_crash_before_the_first_row_is_an_error_too(
    shared_site: Site, tables: dict[str, int], program: GatewayProgram
) -> None:
    with _connected(shared_site, program.port) as conn, ThreadPoolExecutor(1) as person:
        sorting = person.submit(conn.execute, _select(tables, "victims") + " order by note desc, id")
        _executor_of(program, shared_site, "victims").send_signal(signal.SIGSEGV)
        with pytest.raises(psycopg.Error, match="TC513"):
            sorting.result(60)
        assert conn.execute(_select(tables, "victims", "max(id)")).fetchone() == (ROWS - 1,)


def test_executors_that_die_idle_are_replaced_and_nobody_hears_of_it(
    shared_site: Site, tables: dict[str, int], program: GatewayProgram
) -> None:
    with _connected(shared_site, program.port) as conn:
        for _ in range(2):
            assert conn.execute(_select(tables, "victims", "count(*)")).fetchone() == (ROWS,)
            for executor in program.executors():
                executor.kill()
                psutil.wait_procs([executor], timeout=10)
        assert conn.execute(_select(tables, "victims", "count(*)")).fetchone() == (ROWS,)


def test_a_cursor_whose_executor_was_killed_fails_its_transaction_and_never_looks_as_if_it_had_ended(
    shared_site: Site, tables: dict[str, int], program: GatewayProgram
) -> None:
    with _connected(shared_site, program.port, autocommit=False) as conn:
        for cursor, table in (("a", "victims"), ("b", "others")):
            conn.execute(f"declare {cursor} cursor for {_select(tables, table)}")
            assert len(conn.execute(f"fetch 10 from {cursor}").fetchall()) == 10
        conn.execute("savepoint here")
        executor = _executor_of(program, shared_site, "victims")
        assert executor == _executor_of(program, shared_site, "others"), "a session has one executor"
        executor.kill()
        psutil.wait_procs([executor], timeout=10)
        with pytest.raises(psycopg.Error, match="TC513"):
            conn.execute("fetch 100000 from a").fetchall()
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            conn.execute("fetch 100000 from b")
        for cursor in ("a", "b", "a"):
            conn.execute("rollback to here")
            with pytest.raises(psycopg.Error, match="TC513"):
                conn.execute(f"fetch 100000 from {cursor}").fetchall()
        conn.rollback()
        assert conn.execute(_select(tables, "victims", "count(*)")).fetchone() == (ROWS,)


def test_an_executor_that_does_not_react_to_a_cancel_is_killed(
    shared_site: Site, tables: dict[str, int], program: GatewayProgram
) -> None:
    with _connected(shared_site, program.port) as conn, ThreadPoolExecutor(1) as person:
        sorting = person.submit(conn.execute, _select(tables, "victims") + " order by note desc, id")
        executor = _executor_of(program, shared_site, "victims")
        executor.suspend()
        conn.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            sorting.result(60)
        assert not executor.is_running()
        assert conn.execute(_select(tables, "victims", "count(*)")).fetchone() == (ROWS,)


def test_a_gateway_that_is_killed_leaves_no_executor(shared_site: Site, tables: dict[str, int]) -> None:
    with (
        start_program(shared_site.dsn) as program,
        closing(_connected(shared_site, program.port, autocommit=False)) as conn,
    ):
        conn.execute(f"declare c cursor for {_select(tables, 'victims')}")
        conn.execute("fetch 10 from c")
        children = psutil.Process(program.process.pid).children(recursive=True)
        assert len(children) > 1
        program.process.kill()
        assert psutil.wait_procs(children, timeout=20)[1] == []


def test_cursors_of_one_session_share_one_executor_and_another_session_waits_its_turn(
    shared_site: Site, tables: dict[str, int]
) -> None:
    config = GatewayConfig(dsn=shared_site.dsn, executors=1, memory=MemoryLimits(wait_seconds=1))
    with (
        start_in_thread(shared_site.dsn, config=config) as gateway,
        _connected(shared_site, gateway.port, autocommit=False) as holder,
        _connected(shared_site, gateway.port) as other,
    ):
        for cursor in ("a", "b", "c"):
            holder.execute(f"declare {cursor} cursor for {_select(tables, 'victims', 'id')}")
        fetched: dict[str, int] = dict.fromkeys("abc", 0)
        for cursor in "abcabcabc":
            fetched[cursor] += len(holder.execute(f"fetch 50000 from {cursor}").fetchall())
        assert set(fetched.values()) == {150_000}
        with pytest.raises(psycopg.Error, match="TC507") as busy:
            other.execute(_select(tables, "others", "count(*)"))
        assert busy.value.sqlstate == "53000"
        waiting = threading.Timer(0.3, holder.rollback)
        waiting.start()
        assert other.execute(_select(tables, "others", "count(*)")).fetchone() == (ROWS,)
        waiting.join()
        # A result that was read to its end holds no executor, though its cursor is open.
        holder.execute(f"declare small cursor for {_select(tables, 'victims')} and id < 5")
        assert len(holder.execute("fetch 2 from small").fetchall()) == 2
        assert other.execute(_select(tables, "others", "count(*)")).fetchone() == (ROWS,)
        assert len(holder.execute("fetch 10 from small").fetchall()) == 3


def test_an_executor_that_cannot_be_forked_fails_one_statement_and_ends_no_other(
    shared_site: Site, tables: dict[str, int], program: GatewayProgram
) -> None:
    with ExitStack() as sessions:
        first, second, third = (
            sessions.enter_context(_connected(shared_site, program.port, autocommit=False)) for _ in range(3)
        )
        first.execute(f"declare c cursor for {_select(tables, 'victims')}")
        first.execute("fetch 10 from c")
        while len(program.executors()) < 2:
            time.sleep(0.01)
        (zygote,) = {executor.ppid() for executor in program.executors()}
        _, most = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
        before = resource.prlimit(zygote, resource.RLIMIT_NOFILE, (0, most))
        second.execute(f"declare c cursor for {_select(tables, 'victims')}")
        second.execute("fetch 10 from c")
        with pytest.raises(psycopg.Error, match="did not start: Too many open files"):
            third.execute(_select(tables, "victims", "count(*)"))
        resource.prlimit(zygote, resource.RLIMIT_NOFILE, before)
        third.rollback()
        assert third.execute(_select(tables, "victims", "count(*)")).fetchone() == (ROWS,)
        for holder in (first, second):
            assert len(holder.execute("fetch all from c").fetchall()) == ROWS - 10
        assert {executor.ppid() for executor in program.executors()} == {zygote}
