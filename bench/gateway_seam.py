"""The seam inside Postgres, on the table of `gateway_whole`: aggregates beside the foreign table alone, without and
with pending corrections, and a hot query whose bound is known only at run time beside the heap."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg

from bench.figures import Figure, compare, within
from thermocline.runtime.pg import connect_as_typed as connect

PENDING = 10_000
HOT_RUNS = 200
_HOT = "select count(*), sum(qty) from {table} where ts >= timestamptz '2025-12-30 00:00+00' + (now() - now())"
_CORRECT = (
    "update public_all.events set note = 'corrected' where ts >= '2025-06-01 00:00+00' and"
    " ts < '2025-06-01 00:00+00'::timestamptz + %(pending)s * (interval '731 days' / %(rows)s)"
)


def run(dsn: str, queries: Mapping[str, str], rows: int, runs: int) -> Sequence[Figure]:
    """Aggregates without corrections, with them, and the hot query."""
    with closing(connect(dsn, autocommit=True)) as conn:
        conn.execute("set timezone = 'UTC'")
        conn.execute("analyze thermocline_lake.public__events")
        figures = [_measure(conn, name, query, rows, runs, "nothing pending") for name, query in queries.items()]
        conn.execute(_CORRECT.encode(), {"pending": PENDING, "rows": rows})
        conn.execute("analyze thermocline_delta.public__events")
        said = f"{PENDING:,} corrections pending"
        figures += [_measure(conn, name, query, rows, runs, said) for name, query in queries.items()]
        return [*figures, _measure_hot(conn)]


def _measure(conn: psycopg.Connection[Any], name: str, query: str, rows: int, runs: int, said: str) -> Figure:
    row = conn.execute("select s from thermocline.cutline").fetchone()
    assert row is not None
    # OFFSET 0: Postgres aggregates, as over the seam, and does not ask the gateway to.
    alone = f"(select * from thermocline_lake.public__events where _snapshot = {row[0]} offset 0) lake"
    sides = {"seam": query.format(table="public_all.events"), "foreign table": query.format(table=alone)}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(runs + 1):
        for side, text in sides.items():
            seconds = _timed(conn, text)
            if number:
                times[side].append(seconds)
    print(f"bench: seam, {name}, {said}: {times}", file=sys.stderr, flush=True)
    rates = {side: [rows / seconds / 1e6 for seconds in taken] for side, taken in times.items()}
    label = f"aggregate through the seam in Postgres, {name}, {rows:,} rows, {said}"
    return compare(label, rates["seam"], "the foreign table alone", rates["foreign table"], "M rows/s", 0.77)


def _measure_hot(conn: psycopg.Connection[Any]) -> Figure:
    times: dict[str, list[float]] = {"public_all.events": [], "public.events": []}
    for _ in range(HOT_RUNS):
        for table, taken in times.items():
            taken.append(_timed(conn, _HOT.format(table=table)))
    more = statistics.median(times["public_all.events"]) - statistics.median(times["public.events"])
    return within("hot query with now() through the seam, beyond the heap alone, p50", more * 1000, 1.0, "ms")


def _timed(conn: psycopg.Connection[Any], query: str) -> float:
    begun = time.perf_counter()
    conn.execute(query.encode()).fetchall()
    return time.perf_counter() - begun
