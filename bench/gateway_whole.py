"""One aggregate over both tiers: in Postgres with all rows in its heap, through the seam in Postgres, and asked of the
gateway directly.

Of two years the last month lies in the heap, all else in the lake. All three run warm, in turns, and must give the same
rows; the gateway is a process of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from bench import gateway_seam
from bench.figures import Figure, compare
from bench.months import make_months
from bench.tiering import open_postgres
from thermocline.core.names import TableName
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.tier.tiering import tier
from thermocline.runtime.pg import Connection
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import free_port
from thermocline.runtime.settings import Settings

ROWS = int(os.environ.get("BENCH_GATEWAY_WHOLE_ROWS", "10000000"))
RUNS = int(os.environ.get("BENCH_GATEWAY_WHOLE_RUNS", "3"))
MONTHS = 24
HEAP = TableName("public", "events")
_TABLE = """
create table public.{name} (
    id bigint not null, ts timestamptz not null, shop integer not null, kind text, qty integer, amount numeric(12,2),
    discount numeric(4,2), tax numeric(4,2), note text, primary key (id, ts))
partition by range (ts)"""
_FILL = """
insert into public.{name}
select i, '2024-01-01 00:00+00'::timestamptz + i * (interval '731 days' / %(rows)s), i %% 1000,
       (array['click', 'view', 'buy', 'refund'])[1 + i %% 4], i %% 50, (i * 7919 %% 100000) / 100.0, i %% 11 / 100.0,
       i %% 9 / 100.0,
       'note number ' || i
  from generate_series(0::bigint, %(rows)s - 1) i"""
QUERIES = {
    "pricing summary": (
        "select kind, sum(qty), sum(amount), sum(amount * (1 - discount)), sum(amount * (1 - discount) * (1 + tax)),"
        " avg(qty), avg(amount), avg(discount), count(*) from {table} where ts <= '2025-12-20' group by kind "
        "order by kind"
    ),
    "grouped by day": (
        "select date_trunc('day', ts) as day, count(*), sum(amount) from {table} group by day order by day"
    ),
    "top shops": (
        "select shop, sum(amount * qty) as turnover, count(*) from {table} group by shop order by turnover desc, "
        "shop limit 10"
    ),
}


def run() -> Sequence[Figure]:
    """Every query, RUNS times on each side after a warm-up, in turns."""
    with tempfile.TemporaryDirectory(prefix="bench-whole-") as scratch, open_postgres(Path(scratch)) as server:
        port = free_port()
        settings = Settings(
            dir=Path(scratch),
            dsn=server.dsn(),
            warehouse=str(Path(scratch) / "lake"),
            gateway_listen=f"127.0.0.1:{port}",
            spark_master="local[2]",
            spark_driver_memory="3g",
        )
        with closing(connect(server.dsn(), autocommit=True)) as conn:
            _prepare(conn, server.dsn(), settings)
        with gateway_process(server.dsn(), port):
            whole = [_measure(name, query, server.dsn(), port) for name, query in QUERIES.items()]
            return [*whole, *gateway_seam.run(server.dsn(), QUERIES, ROWS, RUNS)]


@contextmanager
def gateway_process(dsn: str, port: int) -> Iterator[None]:
    """A gateway in a process of its own."""
    environment = {**os.environ, "THERMOCLINE_DSN": dsn, "THERMOCLINE_GATEWAY_LISTEN": f"127.0.0.1:{port}"}
    process = subprocess.Popen([sys.executable, "-m", "thermocline", "gateway"], env=environment)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def _prepare(conn: Connection, dsn: str, settings: Settings) -> None:
    _tell(f"filling {ROWS:,} rows twice, and moving all months but the last of one side to the lake")
    conn.execute("create extension if not exists postgres_fdw")
    for name in ("events", "plain"):
        conn.execute(_TABLE.format(name=name).encode())
        make_months(conn, TableName("public", name), 2024, MONTHS)
        conn.execute(_FILL.format(name=name).encode(), {"rows": ROWS})
    register(dsn, RegisterRequest(table=HEAP, premake=0), settings=settings)
    source = lazy_spark_session(dsn, settings)
    for _ in range(2):
        tier(dsn, HEAP, settings=settings, spark=source)
    source().stop()
    conn.execute("vacuum (analyze) public.plain")
    conn.execute("vacuum (analyze) public.events")


def _measure(name: str, query: str, dsn: str, port: int) -> Figure:
    sides = {
        "plain": (psycopg.connect(dsn, autocommit=True), query.format(table="public.plain")),
        "seam": (psycopg.connect(dsn, autocommit=True), query.format(table="public_all.events")),
        "gateway": (
            psycopg.connect(make_conninfo(dsn, host="127.0.0.1", port=port), autocommit=True),
            query.format(table="public_all.events"),
        ),
    }
    times: dict[str, list[float]] = {side: [] for side in sides}
    try:
        for conn, _ in sides.values():
            conn.execute("set timezone = 'UTC'")
        sides["gateway"][0].execute("set thermocline.engine = duckdb")
        for number in range(RUNS + 1):
            answers = {side: _timed(conn, text) for side, (conn, text) in sides.items()}
            if len({str(rows) for _, rows in answers.values()}) != 1:
                raise AssertionError(f"the sides differ: {answers}")
            for side, (seconds, _) in answers.items():
                if number:
                    times[side].append(seconds)
            _tell(
                f"{name}, run {number}: "
                + ", ".join(f"{side} {seconds * 1000:,.0f} ms" for side, (seconds, _) in answers.items())
            )
    finally:
        for conn, _ in sides.values():
            conn.close()
    rates = {side: [ROWS / seconds / 1e6 for seconds in taken] for side, taken in times.items()}
    seam = ROWS / 1e6 / sorted(rates["seam"])[len(rates["seam"]) // 2]
    label = f"whole aggregate over both tiers, {name}, {ROWS:,} rows (the seam in Postgres: {seam * 1000:,.0f} ms)"
    return compare(label, rates["gateway"], "Postgres, all rows in the heap", rates["plain"], "M rows/s", 10.0)


def _timed(conn: psycopg.Connection[Any], query: str) -> tuple[float, list[tuple[Any, ...]]]:
    begun = time.perf_counter()
    rows = conn.execute(query.encode()).fetchall()
    return time.perf_counter() - begun, rows


def _tell(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
