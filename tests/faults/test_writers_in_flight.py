"""pgbench in flight across every step of tiering, folding and expiry: whatever moves, the sums agree.

Its scripts write through the seam and on the heap's own name, at two isolation levels: each transaction adds to a row
of any age, inserts a row of any age or deletes one, and books every amount in a ledger, an ordinary table. At every
snapshot the spanning table's rows must add up to what the ledger says, in number and in sum. Serialization failures are
pgbench's to retry; any other error fails the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.twin import Spanning

from thermocline.errors import TryAgainError
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect_as_typed as connect

TABLE = (
    "create table {schema}.events (id bigint not null, ts timestamptz not null, v bigint not null, primary key "
    "(id, ts))"
)
ROWS = """
insert into events select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i
    from generate_series(1, 400) i
"""
LEDGER = """
create table public.ledger as select ts, v as amount, 1 as rows from public.events;
create sequence public.ids start 1000;
"""
CHECK = """
select (select sum(v) from public_all.events where ts >= '{since}'),
    (select count(*) from public_all.events where ts >= '{since}'),
       (select sum(amount) from ledger where ts >= '{since}'), (select sum(rows) from ledger where ts >= '{since}')
"""
SCRIPT = """
\\set amount random(1, 100)
\\set id random({first_id}, 400)
\\set old random(1000, 3000)
\\set hours random({first_hour}, 2855)
begin isolation level {level};
with u as (update {table} set v = v + :amount where id = :id returning ts) insert into ledger select ts, :amount, 0
    from u;
with i as (insert into {table} values (nextval('ids'),
    '2026-01-01 00:00+00'::timestamptz + :hours * interval '1 hour', :amount)
  returning ts, v) insert into ledger select ts, v, 1 from i;
with d as (delete from {table} where id = :old returning ts, v) insert into ledger select ts, -v, -1 from d;
commit;
"""
CLIENTS = 3
RATE = () if os.environ.get("THERMOCLINE_TEST_ALL_FAULTS") else ("--rate", "150")
"""Hundreds of transactions on both sides of each step; as many as the machine carries only slow the steps down."""


def _pgbench() -> str:
    found = [
        shutil.which("pgbench"),
        *sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/pgbench")), reverse=True),
    ]
    return next(program for program in found if program)


class Bench:
    """pgbench and a reader until they are told to stop; the first wrong sum or unexpected error is kept."""

    def __init__(self, dsn: str, directory: Path, *, first_day: int) -> None:
        self.dsn = dsn
        self.problems: list[str] = []
        self.checked = 0
        self.look = CHECK.format(since=f"2026-{1 + first_day // 31:02d}-01 00:00+00").encode()
        self._log = directory / "pgbench.log"
        self._command = [_pgbench(), "-n", "-M", "prepared", "-c", str(CLIENTS), "-T", "600", "--max-tries", "0", *RATE]
        for table in ("public_all.events", "public.events"):
            for level in ("read committed", "repeatable read"):
                script = directory / f"{table} {level}.sql"
                script.write_text(
                    SCRIPT.format(table=table, level=level, first_id=1 + 4 * first_day, first_hour=24 * first_day)
                )
                self._command += ["-f", str(script)]
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Bench:
        parts = conninfo_to_dict(self.dsn)
        command = [
            *self._command,
            "-h",
            str(parts["host"]),
            "-p",
            str(parts["port"]),
            "-U",
            str(parts["user"]),
            str(parts["dbname"]),
        ]
        environment = {**os.environ, "PGPASSWORD": str(parts["password"])}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._reader.join()
        ended_early = self._process.poll()
        self._process.terminate()
        self._process.wait()
        told = [line for line in self._log.read_text().splitlines() if "abort" in line or "error" in line.lower()]
        if told or ended_early is not None:
            self.problems.append(f"pgbench said {told[:3]} and ended with {ended_early}")

    def booked(self) -> int:
        with connect(self.dsn, autocommit=True) as conn:
            row = conn.execute("select count(*) from ledger").fetchone()
        assert row is not None
        return int(row[0])

    def wait_for(self, booked: int) -> None:
        """Until so many more amounts are booked, so that each step has writers on both of its sides."""
        wanted, deadline = self.booked() + booked, time.monotonic() + 120
        while (
            self.booked() < wanted
            and not self.problems
            and self._process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.02)

    def _read(self) -> None:
        """Twice in one snapshot, with whatever moves in between."""
        try:
            with connect(self.dsn) as conn:
                while not self._stopping.is_set() and not self.problems:
                    conn.execute("set transaction isolation level repeatable read, read only")
                    for pause in (0.05, 0):
                        self._compare(conn)
                        time.sleep(pause)
                    conn.rollback()
                    self.checked += 1
        except psycopg.Error as problem:
            self.problems.append(f"the reader got {problem.sqlstate}: {problem}")

    def _compare(self, conn: psycopg.Connection[Any]) -> None:
        row = conn.execute(self.look).fetchone()
        assert row is not None
        if row[:2] != row[2:]:
            self.problems.append(f"sum and count are {row[:2]}, and the ledger says {row[2:]}")


def _until_done(step: Callable[[], object]) -> None:
    """A step that a writer in flight kept from its lock is tried again, as the worker's next cycle does."""
    for _ in range(50):
        try:
            step()
            return
        except TryAgainError:
            time.sleep(0.05)
    raise AssertionError("the step never got its lock")


@pytest.mark.conforms("C-057", "C-067", "C-068")
@pytest.mark.parametrize("keep_heap", [False, True], ids=["tiered", "keep-heap"])
def test_the_sums_agree_at_every_snapshot_and_at_the_end(
    make_spanning: Callable[..., Spanning], tmp_path: Path, keep_heap: bool
) -> None:
    """Where rows leave the heap, January expires on the way: later months are written and compared."""
    choices: dict[str, Any] = {"keep_heap": True} if keep_heap else {"lake_retention": "62d"}
    spanning = make_spanning(table=TABLE, rows=ROWS, **choices)
    spanning.seam.execute(LEDGER.encode())
    bench = Bench(spanning.dsn, tmp_path, first_day=0 if keep_heap else 31)
    with bench:
        bench.wait_for(30)
        for step in (spanning.tier, spanning.fold, spanning.tier, spanning.fold):
            _until_done(step)
            bench.wait_for(30)
        # A row far ahead makes the newest partition due as well, while it is being written to.
        spanning.seam.execute(
            "create table public.events_ahead partition of public.events for values from ('2026-05-01') to "
            "('2027-01-01');"
            "with i as (insert into events values (-1, '2026-09-01', 5) returning ts, v) insert into ledger "
            "select ts, v, 1 from i"
        )
        for step in (spanning.tier, spanning.fold, spanning.tier):
            _until_done(step)
            bench.wait_for(30)
    assert bench.problems == []
    assert bench.booked() >= 400 + 8 * 30
    assert bench.checked >= 3
    spanning.fold()
    ((rows_sum, rows, amount, booked),) = spanning.seam.execute(bench.look).fetchall()
    assert (rows_sum, rows) == (amount, booked)
    ((t, r),) = spanning.query("select t, r from thermocline.cutline")
    assert t == 1_777_593_600_000_000  # May: every partition that was written to has moved
    assert r == (None if keep_heap else 1_769_904_000_000_000)  # February
    report = verify(spanning.dsn, spanning.name)
    assert report.is_exact, report.sentence
