"""Folding: 100,000 corrections, spread over the whole lake, from the delta into a published snapshot.

Ours is the whole verb: read at one snapshot, write, check, commit, publish, mark, take out of the spill. The yardstick
reads the same corrections by Spark's JDBC source and runs `MERGE INTO` on a copy of the lake table, once with
merge-on-read and once with copy-on-write; the faster of the two counts. All run warm, in turns, in one Spark context,
and must end with the same rows. At the end a backlog of a million corrections is drained, and its rate told.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from bench.figures import Figure, compare, reported, within
from bench.months import make_months, make_partition
from bench.tiering import open_postgres
from thermocline.core.names import TableName
from thermocline.lake.catalogs.jdbc import jdbc_url
from thermocline.ops.fold import FoldReport, fold
from thermocline.ops.register.registration import RegisterRequest, register
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.ops.tier.tiering import tier
from thermocline.runtime.pg import Connection, read_endpoint
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

ROWS = int(os.environ.get("BENCH_FOLD_ROWS", "5000000"))
CORRECTIONS = 100_000
BACKLOG = int(os.environ.get("BENCH_FOLD_BACKLOG", "1000000"))
RUNS = 3
HEAP = TableName("public", "events")
MONTHS = 10
_MEMORY_LIMIT_MIB = 512
_HEAP = """
create table public.events (
    id bigint not null, ts timestamptz not null, kind text, amount numeric(12,2), score double precision, note text,
    primary key (id, ts))
partition by range (ts)"""
_MOMENT = "('2025-01-01 00:00+00'::timestamptz + i * (interval '300 days' / %(rows)s))"
_FILL = f"""
insert into public.events
select i, {_MOMENT}, (array['click', 'view', 'buy', 'refund'])[1 + i %% 4], (i %% 100000) / 100.0, i / 7.0,
       'note number ' || i || ' for the row'
  from generate_series(0, %(rows)s - 1) i
union all select -1, '2027-01-01 00:00+00', null, null, null, null"""
_IMAGES = f"""
insert into public.events
select i, {_MOMENT}, 'corrected', %(run)s, i / 3.0, 'corrected in run ' || %(run)s
  from (select n::bigint * %(rows)s / %(many)s + %(run)s * 3 as i from generate_series(0, %(many)s - 1) n
      where n %% 10 > 0) k"""
_TOMBSTONES = f"""
insert into thermocline_delta.public__events (id, ts, _op, _version)
select i, {_MOMENT}, 1, nextval('thermocline.delta_version')
  from (select n::bigint * %(rows)s / %(many)s + %(run)s * 3 as i from generate_series(0, %(many)s - 1) n
      where n %% 10 = 0) k"""
_BACKLOG = f"""
insert into thermocline_delta.public__events (id, ts, kind, amount, score, note, _op, _version)
select i, {_MOMENT}, 'late', 1, i / 5.0, 'one of many', 0, nextval('thermocline.delta_version')
  from (select n::bigint * %(rows)s / %(many)s + 1 as i from generate_series(0, %(many)s - 1) n) k"""
_MERGE = """
merge into thermocline.public.{copy} l using corrections c on l.id = c.id and l.ts = c.ts
 when matched and c._op = 1 then delete
 when matched then update set kind = c.kind, amount = c.amount, score = c.score, note = c.note
 when not matched and c._op = 0 then insert (id, ts, kind, amount, score, note)
     values (c.id, c.ts, c.kind, c.amount, c.score, c.note)"""
_COPY = """
create table thermocline.public.{copy} using iceberg partitioned by (month(ts))
tblproperties ('format-version' = '2', 'write.merge.mode' = '{mode}', 'write.parquet.compression-level' = '1')
as select * from thermocline.public.events order by ts"""
_MODES = {"by_reading": "merge-on-read", "by_writing": "copy-on-write"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The server, the Spark session and the directory of the benchmark."""

    dsn: str
    settings: Settings
    conn: Connection
    spark: SparkSession


def run() -> Sequence[Figure]:
    """Run all sides alternately, RUNS times each after one warm-up."""
    with tempfile.TemporaryDirectory(prefix="bench-fold-") as scratch, open_postgres(Path(scratch)) as server:
        settings = Settings(dir=Path(scratch), dsn=server.dsn(), spark_master="local[2]", spark_driver_memory="3g")
        with closing(connect(server.dsn(), autocommit=True)) as conn:
            place = _prepare(conn, server.dsn(), settings)
            ours: list[float] = []
            theirs: dict[str, list[float]] = {copy: [] for copy in _MODES}
            peak = 0
            for number in range(RUNS + 1):
                _correct(place, number)
                merged = {copy: CORRECTIONS / _merge(place, copy) for copy in _MODES}
                report, seconds = _fold(place)
                peak = max(peak, report.peak_task_bytes)
                told = ", ".join(f"{_MODES[copy]} {rate:,.0f}" for copy, rate in merged.items())
                _tell(f"run {number}: ours {CORRECTIONS / seconds:,.0f}, MERGE INTO {told} corrections/s")
                if number:
                    ours.append(CORRECTIONS / seconds)
                    for copy, rate in merged.items():
                        theirs[copy].append(rate)
            _check_same(place)
            backlog = _drain(place)
            peak = max(peak, backlog.peak_task_bytes)
            place.spark.stop()
    best = max(theirs, key=lambda copy: statistics.median(theirs[copy]))
    name = f"fold of {CORRECTIONS:,} corrections into {ROWS:,} rows"
    return (
        compare(name, ours, f"Spark MERGE INTO, {_MODES[best]}", theirs[best], "corrections/s", 2.0),
        reported(f"fold: a backlog of {BACKLOG:,} corrections drained", backlog.rows_per_second, "corrections/s"),
        within("fold: memory of a Spark task", peak / 2**20, _MEMORY_LIMIT_MIB, "MiB"),
    )


def _prepare(conn: Connection, dsn: str, settings: Settings) -> Place:
    _tell(f"filling {ROWS:,} rows and moving them to the lake")
    conn.execute("create extension postgres_fdw")
    conn.execute(_HEAP)
    make_months(conn, HEAP, 2025, MONTHS)
    make_partition(conn, HEAP, "now", datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC))
    conn.execute(_FILL, {"rows": ROWS})
    register(dsn, RegisterRequest(table=HEAP), settings=settings)
    source = lazy_spark_session(dsn, settings)
    tier(dsn, HEAP, settings=settings, spark=source)
    tier(dsn, HEAP, settings=settings, spark=source)
    for copy, mode in _MODES.items():
        source().sql(_COPY.format(copy=copy, mode=mode))
    return Place(dsn=dsn, settings=settings, conn=conn, spark=source())


def _correct(place: Place, number: int) -> None:
    values = {"rows": ROWS, "many": CORRECTIONS, "run": number}
    place.conn.execute(_IMAGES, values)
    place.conn.execute(_TOMBSTONES, values)
    place.conn.execute("vacuum analyze thermocline_delta.public__events")
    endpoint = read_endpoint(place.conn)
    options = {
        "user": endpoint.user,
        "password": endpoint.password,
        "driver": "org.postgresql.Driver",
        "fetchsize": "10000",
    }
    table = "(select * from thermocline_delta.public__events where _folded is null and ts < '2026-01-01 00:00+00') c"
    halves = ["ts < '2025-06-01 00:00+00'", "ts >= '2025-06-01 00:00+00'"]
    place.spark.read.jdbc(jdbc_url(endpoint), table, predicates=halves, properties=options).createOrReplaceTempView(
        "corrections"
    )


def _merge(place: Place, copy: str) -> float:
    started = time.perf_counter()
    place.spark.sql(_MERGE.format(copy=copy))
    return time.perf_counter() - started


def _fold(place: Place) -> tuple[FoldReport, float]:
    started = time.perf_counter()
    report = fold(place.dsn, HEAP, settings=place.settings, spark=lambda: place.spark)
    seconds = time.perf_counter() - started
    assert (report.rows, report.commits) == (CORRECTIONS, 1), report.sentence
    return report, seconds


def _drain(place: Place) -> FoldReport:
    place.conn.execute(_BACKLOG, {"rows": ROWS, "many": BACKLOG})
    report = fold(place.dsn, HEAP, settings=place.settings, spark=lambda: place.spark)
    assert (report.rows, report.left) == (BACKLOG, 0), report.sentence
    _tell(report.sentence)
    return report


def _check_same(place: Place) -> None:
    tables = ("events", *_MODES)
    counted = [
        place.spark.sql(
            f"select count(*), sum(id), sum(amount), sum(hash(note)) from thermocline.public.{name}"
        ).collect()
        for name in tables
    ]
    assert all(rows == counted[0] for rows in counted), dict(zip(tables, counted, strict=True))


def _tell(sentence: str) -> None:
    print(f"bench: {sentence}", file=sys.stderr, flush=True)
