"""The parts every test may use: one Postgres per run, a template database, a clone per test, one Spark context, a
gateway, and the twin."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from psycopg import sql
from pyspark.sql import SparkSession
from tests.twin import Spanning

from thermocline.catalog.migrate import apply_migrations
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

_TESTS = Path(__file__).parent
_FOLDERS = ("property", "faults", "e2e", "spark", "docs", "stack", "gateway", "postgres", "unit")
"""Longest files first, so that no worker of `make test` is left alone with one at the end."""

_MEMORY = Path("/dev/shm")
_MEMORY_NEEDED_BYTES = 6 * 1024**3

_TEMPORARY = "THERMOCLINE_TEST_TEMPORARY"
# A test run is too short for the JVM's C2 compiler and Spark's code generation to pay off; two cores need no parallel
# collector.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_SPARK = "--conf spark.sql.codegen.wholeStage=false pyspark-shell"


def pytest_configure(config: pytest.Config) -> None:
    """Remove the temporary files of the run and its child processes at its end, however they end."""
    if _TEMPORARY not in os.environ:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # what pytest keeps of failed tests stays
        _remove_left_by_killed_runs(Path(tempfile.gettempdir()), "thermocline-tests")
        place = Path(tempfile.mkdtemp(prefix=f"thermocline-tests-{os.getpid()}-"))
        place.chmod(0o755)  # the server's user must be able to traverse it
        os.environ[_TEMPORARY] = os.environ["TMPDIR"] = str(place)
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))
    tempfile.tempdir = os.environ[_TEMPORARY]
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{_JVM} -Djava.io.tmpdir={tempfile.tempdir}")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _SPARK)


def _remove_left_by_killed_runs(place: Path, prefix: str) -> None:
    for left in place.glob(f"{prefix}-*-*"):
        if not psutil.pid_exists(int(left.name.removeprefix(f"{prefix}-").split("-")[0])):
            shutil.rmtree(left, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder; ignore py4j's warnings about sockets that it does not close."""
    for item in items:
        item.add_marker(getattr(pytest.mark, _folder(item)))
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
    items.sort(key=lambda item: _FOLDERS.index(_folder(item)))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(_TESTS).parts[0]


@pytest.fixture(scope="session")
def clusters() -> Iterator[Path]:
    """The directory of temporary clusters: in memory where there is enough; the server's user can traverse it."""
    _remove_left_by_killed_runs(_MEMORY, "tc-clusters")
    roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _MEMORY_NEEDED_BYTES
    with tempfile.TemporaryDirectory(prefix=f"tc-clusters-{os.getpid()}-", dir=_MEMORY if roomy else None) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def postgres(clusters: Path) -> Iterator[PostgresServer]:
    """An embedded Postgres for the whole run."""
    # A test connects dozens of times: passwords are hashed once, not 4096 times.
    more = {"max_connections": "200", "max_prepared_transactions": "10", "max_wal_size": "1GB", "scram_iterations": "1"}
    server = PostgresServer(clusters / "postgres", free_port(), {**FAST_TEST_SETTINGS, **more}, password="test")
    server.init()
    server.start()
    with closing(connect(server.dsn(), autocommit=True)) as conn:
        conn.execute("alter role postgres password 'test'")
    yield server
    server.remove()


@pytest.fixture(scope="session")
def template(postgres: PostgresServer) -> str:
    """A database with our catalog in it, cloned for each test."""
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute("create database tc_template")
    with closing(connect(postgres.dsn("tc_template"), autocommit=True)) as conn:
        apply_migrations(conn)
        conn.execute("create extension postgres_fdw")
    return "tc_template"


@pytest.fixture
def database(postgres: PostgresServer, template: str) -> Iterator[str]:
    """The DSN of a fresh database with our catalog in it."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    yield with_database(postgres.dsn(), name)
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def make_spanning(database: str, tmp_path: Path) -> Iterator[Callable[..., Spanning]]:
    """Makes a registered table with its twin, a gateway in front of its lake, and Spark behind it."""
    made: list[Spanning] = []

    def make(**choices: object) -> Spanning:
        spanning = Spanning.make(database, tmp_path, **choices)  # type: ignore[arg-type]
        made.append(spanning)
        return spanning

    yield make
    for spanning in made:
        spanning.close()


@pytest.fixture
def spanning(make_spanning: Callable[..., Spanning]) -> Spanning:
    """public.events by month on a timestamptz, four months of rows, registered, nothing tiered yet; and its twin."""
    return make_spanning()


@pytest.fixture(scope="session", autouse=True)
def _stop_spark() -> Iterator[None]:
    yield
    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()
