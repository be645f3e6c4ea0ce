"""The twin oracle: every statement runs on the spanning table and on an ordinary table, and both must agree, rows,
counts and tags.

The spanning side runs with `search_path = public_all, public`, the twin with `search_path = twin`; so the statements
are the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession
from tests.conditions import Column, assert_same_answers, plan_conditions, read_columns
from tests.gateway_asked import GatewayAsked

from thermocline.core.names import TableName, parse_table_name
from thermocline.gateway.server import GatewayThread, start_in_thread
from thermocline.ops.fold import FoldReport, fold
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.tier.tier_run import TierReport
from thermocline.ops.tier.tiering import tier
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

EVENTS = """
create table {schema}.events (
    id bigint not null,
    ts timestamptz not null,
    v integer not null check (v >= 0),
    note text default 'd',
    amount numeric(12, 2),
    tags text[],
    doc jsonb,
    primary key (id, ts)
)"""
EVENTS_PARTITIONS = """
create table public.events_2026_01 partition of public.events
    for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
create table public.events_2026_02 partition of public.events
    for values from ('2026-02-01 00:00+00') to ('2026-03-01 00:00+00');
create table public.events_2026_03 partition of public.events
    for values from ('2026-03-01 00:00+00') to ('2026-04-01 00:00+00');
create table public.events_2026_04 partition of public.events
    for values from ('2026-04-01 00:00+00') to ('2026-05-01 00:00+00');
"""
EVENTS_ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i, 'row ' || i, i / 7.0,
       array['a', i::text], jsonb_build_object('i', i)
  from generate_series(1, 400) i
"""


@dataclass(slots=True)
class Spanning:
    """A registered table, its twin, and sessions on both."""

    dsn: str
    settings: Settings
    name: TableName
    gateway: GatewayThread
    seam: psycopg.Connection[Any]
    twin: psycopg.Connection[Any]
    extra: list[psycopg.Connection[Any]] = field(default_factory=list)
    turn: int = 0
    """Comparisons made so far: each asks with other conditions, and they are the same ones whenever the test runs."""
    asked: GatewayAsked = field(init=False)

    def __post_init__(self) -> None:
        self.asked = GatewayAsked(self.dsn, self.gateway)

    @classmethod
    def make(
        cls,
        dsn: str,
        directory: Path,
        *,
        table: str = EVENTS,
        partitions: str = EVENTS_PARTITIONS,
        partition_by: str = "range (ts)",
        rows: str = EVENTS_ROWS,
        small_files: bool = False,
        **request: Any,
    ) -> Spanning:
        with closing(connect(dsn, autocommit=True)) as conn:
            conn.execute("create schema twin")
            conn.execute(f"{table.format(schema='public')} partition by {partition_by}".encode())
            conn.execute(partitions.encode())
            conn.execute(table.format(schema="twin").encode())
            for path in ("public", "twin"):
                conn.execute(f"set search_path = {path}".encode())
                if rows:
                    conn.execute(rows.encode())
        gateway = start_in_thread(dsn)
        settings = Settings(
            dir=directory,
            dsn=dsn,
            warehouse=str(directory / "lake house"),
            gateway_listen=f"127.0.0.1:{gateway.port}",
            spark_master="local[2,2]",
            spark_driver_memory="2g",
            lock_timeout_ms=1000,
        )
        if small_files:  # below what a person may set: several row groups and files out of a hundred rows
            settings = settings.model_copy(update={"copy_memory_bytes": 128 << 10, "target_file_bytes": 6 << 10})
        name = cls.table_name()
        # The grid is the test's own unless it asks otherwise; premake=None is the program's default.
        # Partitions move by themselves, unless the test says otherwise.
        register(dsn, RegisterRequest(table=name, **{"premake": 0, "start": True, **request}), settings=settings)
        return cls(
            dsn=dsn,
            settings=settings,
            name=name,
            gateway=gateway,
            seam=open_session(dsn, "public_all, public"),
            twin=open_session(dsn, "twin"),
        )

    @staticmethod
    def table_name() -> TableName:
        return parse_table_name("public.events")

    def spark(self) -> SparkSession:
        return lazy_spark_session(self.dsn, self.settings)()

    def tier(self, **changes: Any) -> TierReport:
        """One tiering cycle."""
        return tier(self.dsn, self.name, **{"settings": self.settings, "spark": self.spark, **changes})

    def age_moves(self, days: int, like: str = "%") -> None:
        """Let the moves of partitions be older by so many days, as the reclaim lag counts them."""
        self.seam.execute(
            "update thermocline.partitions set moved_at = moved_at - make_interval(days => %s) where name like %s",
            [days, like],
        )

    def fold(self, **changes: Any) -> FoldReport:
        """Everything that waits in the delta below the cut-line, into the lake."""
        return fold(self.dsn, self.name, settings=self.settings, spark=self.spark, **changes)

    def session(self, search_path: str = "public_all, public", autocommit: bool = False) -> psycopg.Connection[Any]:
        """Another session on the spanning side, closed at the end."""
        conn = open_session(self.dsn, search_path, autocommit)
        self.extra.append(conn)
        return conn

    def both(self, statement: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement on both sides and compare what comes back; the twin's rows."""
        ours = run(self.seam, statement, params)
        twins = run(self.twin, statement, params)
        assert ours == twins, f"{statement}\nspanning: {ours}\ntwin:     {twins}"
        return twins.rows

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        """A query on the spanning side alone."""
        return self.seam.execute(statement.encode()).fetchall()

    def alter(self, change: str) -> None:
        """The same ALTER TABLE on the heap and on the twin, at one moment: `now()` is the same in both."""
        with closing(connect(self.dsn)) as conn, conn.transaction():
            for table in ("public.events", "twin.events"):
                conn.execute(f"alter table {table} {change}".encode())

    def assert_same_rows(self, conn: psycopg.Connection[Any] | None = None, *, each: int | None = None) -> None:
        """The seam and the gateway have the twin's rows, asked for all of them and with conditions, `each` of every
        kind per column.

        In a session of the caller's own, whose rows need not be committed, only the seam is asked.
        """
        self.turn += 1
        columns = assert_same_rows(conn or self.seam, self.turn, each=each)
        if conn is None:
            self.asked.assert_same_rows(self.twin, columns, self.turn, each=each)

    def close(self) -> None:
        self.asked.close()
        for conn in (*self.extra, self.seam, self.twin):
            conn.close()
        self.gateway.stop()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement gave: its SQLSTATE, command tag and rows."""

    state: str
    tag: str
    rows: list[tuple[Any, ...]]


def run(conn: psycopg.Connection[Any], statement: str, params: Sequence[Any] = ()) -> Outcome:
    try:
        cursor = conn.execute(statement.encode(), params or None)
    except psycopg.Error as problem:
        if conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR and not conn.autocommit:
            conn.rollback()
        return Outcome(problem.sqlstate or "?", "", [])
    rows = cursor.fetchall() if cursor.description else []
    # NaN is equal to itself in Postgres, and not in Python.
    known = [tuple("NaN" if value != value else value for value in row) for row in rows]
    return Outcome("00000", cursor.statusmessage or "", sorted(known, key=repr))


def assert_same_rows(conn: psycopg.Connection[Any], turn: int = 0, *, each: int | None = None) -> tuple[Column, ...]:
    """All rows of both sides agree, and those that conditions on every column find; the columns, with the values the
    conditions had."""
    columns = read_columns(conn, "twin.events", turn)
    conditions = plan_conditions(columns, turn, each=each)
    assert_same_answers(conn, conditions, ours="public_all.events", twin="twin.events", channel="the seam", turn=turn)
    return columns


def open_session(dsn: str, search_path: str, autocommit: bool = True) -> psycopg.Connection[Any]:
    conn = connect(dsn, autocommit=True, application_name="test")
    conn.prepare_threshold = None  # a prepared `select *` fails, as on any table, once the columns change
    conn.execute("select pg_catalog.set_config('search_path', %s::pg_catalog.text, false)", [search_path])
    conn.autocommit = autocommit
    return conn
