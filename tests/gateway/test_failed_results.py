"""Results that fail, are cancelled or are dropped: none looks as if it had ended, and none keeps an executor."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from tests.gateway.conftest import Site
from tests.gateway.wire_client import SYNC, bind, execute, open_client, parse, query

from thermocline.errors import GatewayBusy
from thermocline.gateway.config import GatewayConfig
from thermocline.gateway.executor.executor_pool import ExecutorPool, SessionExecutor
from thermocline.gateway.executor.executor_stream import ExecutorStream
from thermocline.gateway.executor.jobs import ExecutorConfig, LakeAccess, ScanJob
from thermocline.gateway.executor.memory_limits import MemoryLimits
from thermocline.gateway.lake_arm.catalog_reader import EvaluationLimits
from thermocline.gateway.server import start_in_thread
from thermocline.gateway.sql.fragments import Fragment
from thermocline.gateway.wire.row_encoding import TEXT_FORMAT

ROWS = 600_000
COLUMNS = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "note", StringType(), required=False))


@pytest.fixture(scope="module")
def everything(shared_site: Site) -> str:
    """A SELECT of a lake table that is far larger than all buffers between the gateway and a client."""
    ids = np.arange(ROWS)
    rows = pa.table(
        {"id": pa.array(ids), "note": pa.array([f"note {i} of many, all of them much longer" for i in ids])}
    )
    shared_site.lake.create("victims", COLUMNS)
    return f"select id, note from public.victims where _snapshot = {shared_site.lake.append('victims', rows)}"


@contextmanager
def _one_executor(site: Site) -> Iterator[str]:
    """A gateway with one executor; its DSN."""
    config = GatewayConfig(dsn=site.dsn, executors=1, memory=MemoryLimits(wait_seconds=3))
    with start_in_thread(site.dsn, config=config) as gateway:
        yield make_conninfo(site.direct_dsn(), port=gateway.port)


def _count_below_three(dsn: str, everything: str) -> int:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return len(conn.execute(f"{everything} and id < 3").fetchall())


def test_a_suspended_portal_that_is_bound_again_gives_its_executor_back(shared_site: Site, everything: str) -> None:
    with _one_executor(shared_site) as dsn:
        with open_client(dsn) as client:
            client.ask(query("begin"))
            for _ in range(3):
                answer = client.ask(parse("", everything), bind("", ""), execute("", 1), SYNC)
                assert (answer.sqlstate, answer.rows, answer.is_suspended) == (None, 1, True)
            assert client.ask(parse("", "commit"), bind("", ""), execute(""), SYNC).tags == ["COMMIT"]
        assert _count_below_three(dsn, everything) == 3


def test_a_simple_query_closes_the_unnamed_portal(shared_site: Site, everything: str) -> None:
    with _one_executor(shared_site) as dsn, open_client(dsn) as client:
        client.ask(query("begin"))
        client.ask(parse("", everything), bind("", ""), execute("", 1), SYNC)
        client.ask(query("savepoint here"))
        assert _count_below_three(dsn, everything) == 3
        assert client.ask(execute(""), SYNC).sqlstate == "34000"


def test_a_named_portal_is_bound_once(shared_site: Site, everything: str) -> None:
    with open_client(shared_site.direct_dsn()) as client:
        client.ask(query("begin"))
        bound = [parse("s", everything), bind("p", "s"), execute("p", 1)]
        assert client.ask(*bound, SYNC).is_suspended
        assert client.ask(bind("p", "s"), SYNC).sqlstate == "42P03"


def test_a_portal_that_failed_fails_again(shared_site: Site, everything: str) -> None:
    with open_client(shared_site.direct_dsn()) as client:
        client.ask(query("begin"))
        assert client.ask(parse("s", everything), bind("p", "s"), execute("p", 10), SYNC).is_suspended
        client.ask(query("savepoint here"))
        cancelled = client.ask_and_cancel(execute("p"), SYNC)
        assert cancelled.sqlstate == "57014"
        assert cancelled.rows < ROWS - 10
        for _ in range(2):
            client.ask(query("rollback to here"))
            again = client.ask(execute("p"), SYNC)
            assert (again.sqlstate, again.rows, again.tags) == ("57014", 0, [])


@pytest.mark.parametrize("count", ["500000", "all"])
def test_a_cursor_whose_fetch_failed_never_continues_behind_it(shared_site: Site, everything: str, count: str) -> None:
    with open_client(shared_site.direct_dsn()) as client:
        client.ask(query("begin"))
        client.ask(query(f"declare c cursor for {everything}"))
        client.ask(query("savepoint here"))
        assert client.ask_and_cancel(query(f"fetch {count} from c")).sqlstate == "57014"
        for statement in ("fetch all from c", "fetch 1 from c"):
            client.ask(query("rollback to here"))
            again = client.ask(query(statement))
            assert (again.sqlstate, again.rows, again.tags) == ("57014", 0, [])
        client.ask(query("rollback to here"))
        assert client.ask(query("move backward all in c")).tags == ["MOVE 0"]
        assert client.ask(query("fetch all from c")).rows == ROWS


def test_a_result_that_failed_holds_no_executor(shared_site: Site, everything: str) -> None:
    with _one_executor(shared_site) as dsn, open_client(dsn) as client:
        client.ask(query("begin"))
        client.ask(query(f"declare c cursor for {everything}"))
        assert client.ask_and_cancel(query("fetch all from c")).sqlstate == "57014"
        assert _count_below_three(dsn, everything) == 3


def test_a_rewind_that_fails_leaves_the_cursor_where_it_was(shared_site: Site) -> None:
    lake = shared_site.lake
    lake.create("moved", COLUMNS)
    rows = pa.table({"id": pa.array(range(5)), "note": ["a", "b", "c", "d", "e"]})
    snapshot = lake.append("moved", rows)
    place = lake.tables["moved"].metadata_location
    with psycopg.connect(shared_site.direct_dsn(), autocommit=True) as conn:
        conn.execute("begin")
        conn.execute(
            f"declare c cursor for select id from public.moved where _snapshot = {snapshot} and md5(note) > ''"
        )
        assert conn.execute("fetch 2 from c").fetchall() == [(0,), (1,)]
        conn.execute("savepoint here")
        lake.point_at("moved", "file:///nowhere/v1.metadata.json")
        with pytest.raises(psycopg.Error):
            conn.execute("move backward all in c")
        lake.point_at("moved", place)
        conn.execute("rollback to here")
        assert conn.execute("fetch all from c").fetchall() == [(2,), (3,), (4,)]


def test_a_cursor_is_read_in_one_format(shared_site: Site, everything: str) -> None:
    with psycopg.connect(shared_site.direct_dsn(), autocommit=True) as conn:
        conn.execute("begin")
        conn.execute(f"declare c cursor for {everything} and id >= 1000 and id < 1006 order by id")
        assert [row[0] for row in conn.execute("fetch 2 from c").fetchall()] == [1000, 1001]
        conn.execute("savepoint here")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="one format"):
            conn.cursor(binary=True).execute("fetch 2 from c", prepare=True)
        conn.execute("rollback to here")
        assert [row[0] for row in conn.execute("fetch all from c").fetchall()] == [1002, 1003, 1004, 1005]


@pytest.mark.parametrize("end", ["commit", "disconnect"])
def test_a_result_that_cannot_be_closed_keeps_no_other_one_open(shared_site: Site, everything: str, end: str) -> None:
    with _one_executor(shared_site) as dsn, open_client(dsn) as client:
        client.ask(query("begin"))
        client.ask(query(f"declare evaluated cursor for {everything} and id < 9000 and md5(note) > ''"))
        assert client.ask(query("fetch 1 from evaluated")).rows == 1
        client.ask(query(f"declare scanned cursor for {everything}"))
        assert client.ask(query("fetch 1 from scanned")).rows == 1
        assert _terminate_evaluations(shared_site.conn) == 1
        if end == "commit":
            assert client.ask(query("commit")).tags == ["COMMIT"]
        else:
            client.send((b"X", b""))
        assert _count_below_three(dsn, everything) == 3


@pytest.mark.parametrize("asked", ["fetch", "describe"])
def test_an_evaluation_that_fails_returns_its_connection(shared_site: Site, everything: str, asked: str) -> None:
    config = GatewayConfig(dsn=shared_site.dsn, evaluations=EvaluationLimits(at_once=2, wait_seconds=2))
    evaluated = f"{everything} and id < 5 and md5(note) > ''"
    failing = f"{evaluated} and 1/(id - id) > 0"
    with start_in_thread(shared_site.dsn, config=config) as gateway:
        dsn = make_conninfo(shared_site.direct_dsn(), port=gateway.port)
        with open_client(dsn) as client, open_client(dsn) as other:
            client.ask(query("begin"))
            client.ask(query(f"declare c cursor for {failing}"))
            client.ask(query("savepoint here"))
            for _ in range(4):
                fetched = (
                    client.ask(query("fetch 1 from c"))
                    if asked == "fetch"
                    else client.ask(parse("", "fetch 1 from c"), bind("", ""), (b"D", b"P\0"), execute(""), SYNC)
                )
                assert fetched.sqlstate == "22012"
                client.ask(query("rollback to here"))
            assert other.ask(query(evaluated)).rows == 5


def test_a_session_has_a_bounded_number_of_open_results(shared_site: Site, everything: str) -> None:
    with open_client(shared_site.direct_dsn()) as client:
        client.ask(query("begin"))
        states = [client.ask(query(f"declare c{at} cursor for {everything}")).sqlstate for at in range(2_049)]
        assert states == [None] * 2_048 + ["54000"]


@pytest.fixture
def pool() -> Iterator[ExecutorPool]:
    """One executor, and room for one sort."""
    memory = MemoryLimits(whole_bytes=100_000_000, connection_bytes=100_000_000, wait_seconds=10)
    pool = ExecutorPool(ExecutorConfig(dsn="", threads=1, memory=memory, spill_path=""), most=1, at_once=2)
    with closing(pool):
        pool.start()
        yield pool


def _sort(session: SessionExecutor, *, holds_rows: bool = True) -> ExecutorStream:
    statement = Fragment("select i from range(100000) r(i) order by i desc")
    job = ScanJob(lake=LakeAccess(), statement=statement, batch_rows=2_048, type_oids=(20,), holds_rows=holds_rows)
    return ExecutorStream(session, job)


def test_without_file_descriptors_a_statement_fails_and_keeps_nothing(pool: ExecutorPool) -> None:
    session = SessionExecutor(pool)
    for _ in range(2):
        with _no_file_descriptors(), pytest.raises(GatewayBusy, match="Too many open files"):
            _sort(session).next_rows(TEXT_FORMAT)
    other = _sort(SessionExecutor(pool))
    assert other.next_rows(TEXT_FORMAT) is not None
    other.close()


@contextmanager
def _no_file_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while True:
            try:
                held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield


def test_a_session_that_ends_with_an_open_result_leaves_its_place_to_the_next(pool: ExecutorPool) -> None:
    session = SessionExecutor(pool)
    forgotten = _sort(session)
    assert forgotten.next_rows(TEXT_FORMAT) is not None
    session.close()
    other = _sort(SessionExecutor(pool))
    assert other.next_rows(TEXT_FORMAT) is not None
    forgotten.close()
    assert other.next_rows(TEXT_FORMAT) is not None
    other.close()


def test_whoever_waits_for_an_executor_keeps_no_memory_from_its_owner(pool: ExecutorPool) -> None:
    owner = SessionExecutor(pool)
    first, waiting = _sort(owner, holds_rows=False), _sort(SessionExecutor(pool))
    assert first.next_rows(TEXT_FORMAT) is not None
    with ThreadPoolExecutor(1) as person:
        waits = person.submit(waiting.next_rows, TEXT_FORMAT)
        time.sleep(0.3)
        second = _sort(owner)
        assert second.next_rows(TEXT_FORMAT) is not None
        first.close()
        second.close()
        assert waits.result(20) is not None
    waiting.close()


def _terminate_evaluations(conn: psycopg.Connection[Any]) -> int:
    """End the gateway's sessions that are in a transaction, which is those that evaluate a statement."""
    found = conn.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
        " where application_name = 'thermocline gateway' and datname = current_database()"
        " and state like 'idle in transaction%'"
    ).fetchall()
    return len(found)
