"""OLTP: what registration costs the heap, and what the seam adds to a hot query.

Two tables of the same shape and rows stand in one database, one of them registered and tiered, the other not. pgbench
(or, where there is none, a pool of sessions that does the same) runs one transaction on either, in turns: an insert, an
update and a look-up of recent rows on the table's own name. The seam is asked for recent rows by key, with a prepared
statement, beside the same query on the heap's name.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg

from bench.figures import Figure, compare, machine
from bench.months import make_months
from bench.tiering import open_postgres
from thermocline.core.names import TableName, parse_table_name
from thermocline.gateway.server import start_in_thread
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.tier.tiering import tier
from thermocline.runtime.pg import Connection
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.runtime.settings import Settings

ROWS = int(os.environ.get("BENCH_OLTP_ROWS", "600000"))
SECONDS = int(os.environ.get("BENCH_OLTP_SECONDS", "10"))
RUNS = int(os.environ.get("BENCH_OLTP_RUNS", "5"))
LOOK_UPS = int(os.environ.get("BENCH_OLTP_LOOK_UPS", "3000"))
CLIENTS = 4
TABLES = {"registered": "public.events", "plain": "public.plain"}
_MONTHS = 6
_SHAPE = """
create table {table} (id bigint not null, ts timestamptz not null, kind text, amount numeric(12,2), note text,
    primary key (id, ts))
partition by range (ts)"""
_FILL = """
insert into {table}
select i, '2026-01-01 00:00+00'::timestamptz + i * (interval '180 days' / %(rows)s), 'view', i %% 1000,
    'note number ' || i
  from generate_series(1, %(rows)s) i"""
_SCRIPT = """
\\set recent random(1, 100000)
\\set amount random(1, 1000)
insert into {table} values (nextval('public.ids'), '2026-06-20 00:00+00'::timestamptz + :recent * interval '1 s',
    'buy', :amount, 'new');
update {table} set amount = amount + :amount where id = {rows} - :recent % {hot}
   and ts = '2026-01-01 00:00+00'::timestamptz + ({rows} - :recent % {hot}) * (interval '180 days' / {rows});
select amount from {table} where id = {rows} - :recent % {hot} and ts >= '2026-06-01 00:00+00';
"""
_LOOK_UP = "select * from {table} where id = %s and ts >= '2026-06-01 00:00+00'"


def run() -> Sequence[Figure]:
    """Run both tables alternately, RUNS times each after one warm-up; then the look-ups."""
    with tempfile.TemporaryDirectory(prefix="bench-oltp-") as scratch, open_postgres(Path(scratch)) as server:
        gateway = start_in_thread(server.dsn())
        try:
            _prepare(server, Path(scratch), gateway.port)
            rates: dict[str, list[float]] = {side: [] for side in TABLES}
            for number in range(RUNS + 1):
                for side in list(TABLES) if number % 2 else list(reversed(TABLES)):
                    rate = _pgbench(server, Path(scratch), TABLES[side])
                    _tell(f"run {number}: {side}: {rate:,.0f} transactions/s")
                    if number:
                        rates[side].append(rate)
            heap, seam = _look_ups(server.dsn())
        finally:
            gateway.stop()
    return (
        compare(
            "heap writes: the registered heap",
            rates["registered"],
            "the unregistered heap",
            rates["plain"],
            "transactions/s",
            0.98,
        ),
        _added("seam: hot look-up, added to the heap's", heap, seam),
    )


def _prepare(server: PostgresServer, scratch: Path, gateway_port: int) -> None:
    settings = Settings(
        dir=scratch,
        dsn=server.dsn(),
        gateway_listen=f"127.0.0.1:{gateway_port}",
        spark_master="local[2]",
        spark_driver_memory="2g",
    )
    with closing(connect(server.dsn(), autocommit=True)) as conn:
        conn.execute("create extension postgres_fdw")
        conn.execute("create sequence public.ids start 1000000000")
        for table in TABLES.values():
            _tell(f"filling {ROWS:,} rows into {table}")
            conn.execute(_SHAPE.format(table=table).encode())
            make_months(conn, parse_table_name(table), 2026, _MONTHS)
            conn.execute(_FILL.format(table=table).encode(), {"rows": ROWS})
        name = TableName("public", "events")
        register(server.dsn(), RegisterRequest(table=name, premake=0), settings=settings)
        source = lazy_spark_session(server.dsn(), settings)
        tier(server.dsn(), name, settings=settings, spark=source)
        tier(server.dsn(), name, settings=settings, spark=source)
        source().stop()
        conn.execute("alter database postgres set constraint_exclusion = on")
        conn.execute("vacuum analyze")


def _pgbench(server: PostgresServer, scratch: Path, table: str) -> float:
    """Transactions per second of the script on one table."""
    with closing(connect(server.dsn(), autocommit=True)) as conn:
        conn.execute("checkpoint")
    program = _find_pgbench()
    if program is None:
        return _pool(server.dsn(), table)
    script = scratch / "script.sql"
    script.write_text(_SCRIPT.format(table=table, rows=ROWS, hot=ROWS // 12))
    command = [program, "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(SECONDS), "-f", str(script)]
    parts = psycopg.conninfo.conninfo_to_dict(server.dsn())
    command += ["-h", str(parts["host"]), "-p", str(parts["port"]), "-U", str(parts["user"]), str(parts["dbname"])]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PGPASSWORD": str(parts["password"])}
    )
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    if found is None:
        raise AssertionError(f"pgbench said no rate: {done.stdout}")
    return float(found[1])


def _find_pgbench() -> str | None:
    found = shutil.which("pgbench")
    if found:
        return found
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"))
    return str(installed[-1]) if installed else None


def _pool(dsn: str, table: str) -> float:
    """The same transaction from CLIENTS sessions of our own; slower than pgbench, and equally so on both tables."""
    counts = [0] * CLIENTS
    until = time.perf_counter() + SECONDS

    def work(client: int) -> None:
        with closing(connect(dsn, autocommit=True)) as conn:
            while time.perf_counter() < until:
                _transact(conn, table, client * 1000 + counts[client])
                counts[client] += 1

    threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def _transact(conn: Connection, table: str, number: int) -> None:
    recent = number % (ROWS // 12)
    for statement in _SCRIPT.format(table=table, rows=ROWS, hot=ROWS // 12).split(";"):
        text = re.sub(r"\\set.*", "", statement).strip().replace("%", "%%")
        if text:
            conn.execute(
                text.replace(":recent", "%(recent)s").replace(":amount", "%(amount)s").encode(),
                {"recent": recent, "amount": 7},
            )


def _look_ups(dsn: str) -> tuple[list[float], list[float]]:
    """Milliseconds of each look-up on the heap's name and on the seam, in turns, on one connection."""
    times: dict[str, list[float]] = {"public.events": [], "public_all.events": []}
    with closing(connect(dsn, autocommit=True)) as conn:
        conn.prepare_threshold = 0
        for number in range(LOOK_UPS + 100):
            wanted = ROWS - number % (ROWS // 12)
            for table, taken in times.items():
                query = _LOOK_UP.format(table=table).encode()
                begun = time.perf_counter()
                rows = conn.execute(query, [wanted]).fetchall()
                if number >= 100:
                    taken.append((time.perf_counter() - begun) * 1e3)
                if len(rows) != 1 or rows[0][0] != wanted:
                    raise AssertionError(f"looked up {wanted} in {table}, found {rows}")
    return times["public.events"], times["public_all.events"]


def _added(name: str, heap: Sequence[float], seam: Sequence[float]) -> Figure:
    """The overhead of the seam at the median."""
    plain, spanning = statistics.median(heap), statistics.median(seam)
    return Figure(
        figure=name,
        value=round(spanning - plain, 3),
        unit="ms",
        yardstick="the same query on the heap",
        yardstick_value=round(plain, 3),
        ratio=round(spanning / plain, 2),
        reach="<= 1",
        met=spanning - plain <= 1.0,
        runs=len(seam),
        spread=round((statistics.quantiles(seam, n=20)[-1] - min(seam)) / spanning, 3),
        machine=machine(),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
    )


def _tell(sentence: str) -> None:
    print(f"bench: {sentence}", file=sys.stderr, flush=True)
