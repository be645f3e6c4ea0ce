"""Writers in flight across every step of tiering and folding, in the discipline of pgbench: whatever moves, the sums agree.

Each transaction adds to a row of any age, inserts a row of any age, and writes both amounts to a ledger, an ordinary table. At every
snapshot the spanning table's rows must add up to what the ledger says, in number and in sum.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.twin import Spanning

from thermocline.errors import TryAgainError
from thermocline.ops.verify import verify
from thermocline.pg import connect

TABLE = "create table {schema}.events (id bigint not null, ts timestamptz not null, v bigint not null, primary key (id, ts))"
ROWS = """
insert into events select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i from generate_series(1, 400) i
"""
CHECK = """
select (select sum(v) from public_all.events), (select count(*) from public_all.events),
       (select sum(amount) from ledger), (select sum(rows) from ledger)
"""
WRITERS = 3


class Pool:
    """The writers and the reader, until they are told to stop; the first wrong sum or unexpected error is kept."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.stopping = threading.Event()
        self.problems: list[str] = []
        self.committed = 0
        self.retried = 0
        self.checked = 0
        self._count = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(self._write, seed)) for seed in range(WRITERS)]
        self._threads.append(threading.Thread(target=self._run, args=(self._read, 99)))

    def __enter__(self) -> Pool:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, committed: int) -> None:
        """Until so many more transactions are through, so that each step has writers on both of its sides."""
        wanted, deadline = self.committed + committed, time.monotonic() + 120
        while self.committed < wanted and not self.problems and time.monotonic() < deadline:
            time.sleep(0.02)

    def _run(self, work: Callable[[psycopg.Connection[Any], random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        with connect(self.dsn) as conn:
            conn.execute("set search_path = public_all, public")
            conn.commit()
            while not self.stopping.is_set() and not self.problems:
                try:
                    work(conn, chance)
                except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                    conn.rollback()
                    self.retried += 1
                except psycopg.Error as problem:
                    self.problems.append(f"{problem.sqlstate}: {problem}")

    def _write(self, conn: psycopg.Connection[Any], chance: random.Random) -> None:
        conn.execute("set transaction isolation level " + chance.choice(["read committed", "repeatable read"]))
        amount, hours = chance.randrange(1, 100), chance.randrange(0, 119 * 24)
        conn.execute("update events set v = v + %s where id = %s", [amount, chance.randrange(1, 401)])
        if chance.random() < 0.3:
            time.sleep(chance.random() / 20)
        conn.execute(
            "insert into events values (nextval('ids'), '2026-01-01 00:00+00'::timestamptz + %s * interval '1 hour', %s)", [hours, amount]
        )
        conn.execute("insert into ledger values (%s, 1)", [2 * amount])
        conn.commit()
        with self._count:
            self.committed += 1

    def _read(self, conn: psycopg.Connection[Any], chance: random.Random) -> None:
        conn.execute("set transaction isolation level repeatable read, read only")
        for _ in range(2):  # twice in one snapshot, with whatever moves in between
            row = conn.execute(CHECK).fetchone()
            assert row is not None
            if row[:2] != row[2:]:
                self.problems.append(f"sum and count are {row[:2]}, and the ledger says {row[2:]}")
            time.sleep(chance.random() / 10)
        conn.rollback()
        self.checked += 1


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
def test_the_sums_agree_at_every_snapshot_and_at_the_end(make_spanning: Callable[..., Spanning], keep_heap: bool) -> None:
    spanning = make_spanning(table=TABLE, rows=ROWS, keep_heap=keep_heap)
    spanning.seam.execute("create table public.ledger as select sum(v)::bigint as amount, count(*)::bigint as rows from public.events")
    spanning.seam.execute("create sequence public.ids start 1000")
    with Pool(spanning.dsn) as pool:
        pool.wait_for(10)
        for step in (spanning.tier, spanning.fold, spanning.tier, spanning.fold):
            _until_done(step)
            pool.wait_for(10)
        # A row far ahead makes the newest partition due as well, while it is being written to.
        spanning.seam.execute(
            "create table public.events_ahead partition of public.events for values from ('2026-05-01') to ('2027-01-01')"
        )
        spanning.seam.execute("begin; insert into events values (-1, '2026-09-01', 5); insert into ledger values (5, 1); commit")
        for step in (spanning.tier, spanning.fold, spanning.tier):
            _until_done(step)
            pool.wait_for(10)
    assert pool.problems == []
    assert pool.committed >= 60
    assert pool.checked >= 3
    spanning.fold()
    ((rows_sum, rows, amount, booked),) = spanning.query(CHECK)
    assert (rows_sum, rows) == (amount, booked)
    ((t,),) = spanning.query("select t from thermocline.cutline")
    assert t == 1_777_593_600_000_000  # May: every partition that was written to has moved
    report = verify(spanning.dsn, spanning.name)
    assert report.is_exact, report.sentence
