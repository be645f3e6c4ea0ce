"""Tiering: rows per second from a heap partition into a committed lake snapshot.

Ours copies, checks every row on both sides and commits; the yardstick reads by Spark's JDBC source, split by the same
block ranges and with a tuned fetch size, and appends by Iceberg's own writer with the same codec and level. Both run
warm, in turns, in one Spark context. uuid is stored natively by ours, as tiering does, and as text by the yardstick,
because Spark cannot write it.

Processor time is counted over all processes of the benchmark: driver, JVM, Python workers and Postgres. It tells more
than the clock does when the machine has other work.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from bench.figures import Figure, compare, within
from thermocline.catalog.migrate import apply_migrations
from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.catalogs.jdbc import jdbc_url
from thermocline.lake.commit.compare_and_swap import OpStamp, append_range, load_table
from thermocline.runtime.pg import Endpoint, read_endpoint
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer, free_port
from thermocline.spark.jobs.copy import CopyResult, copy_partition, plan_block_ranges
from thermocline.spark.kernels.copy_partition import CopyTask
from thermocline.spark.spark_session import SparkPlan, open_spark_session

ROWS = int(os.environ.get("BENCH_TIERING_ROWS", "4000000"))
RUNS = 3
HEAP = TableName("public", "events")
CORES = 2
_MEMORY_LIMIT_MIB = 512
_HEAP = """
create table public.events (
    id bigint not null, ts timestamptz not null, kind text, amount numeric(12,2), score double precision, ref uuid,
    note text)"""
_FILL = """
insert into public.events
select i, '2026-01-01'::timestamptz + i * interval '0.6 s', (array['click', 'view', 'buy', 'refund'])[1 + i %% 4],
    (i %% 100000) / 100.0,
       random(), gen_random_uuid(), case when i %% 10 = 0 then null else 'note number ' || i || ' for the row' end
from generate_series(1, %s) i"""
_LAKE = """
create table thermocline.public.{name} (
    id bigint not null, ts timestamp not null, kind string, amount decimal(12,2), score double, note string{ref})
using iceberg partitioned by (month(ts))
tblproperties ('format-version' = '2', 'write.parquet.compression-level' = '1', 'write.distribution-mode' = 'none')"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the benchmark runs."""

    dsn: str
    endpoint: Endpoint
    spark: SparkSession
    ranges: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The time and processor time of one side."""

    seconds: float
    core_seconds: float
    peak_bytes: int

    @property
    def rate(self) -> float:
        return ROWS / self.seconds / 1e6

    @property
    def rows_per_core_second(self) -> float:
        return ROWS / self.core_seconds / 1e6


def run() -> Sequence[Figure]:
    """Run both sides alternately, RUNS times each."""
    with tempfile.TemporaryDirectory(prefix="bench-tiering-") as scratch, open_postgres(Path(scratch)) as server:
        _tell(f"filling {ROWS:,} rows")
        place = _prepare(server, Path(scratch) / "lake")
        ours, theirs = [], []
        _measure(place, "warm_up_ours", _copy_check_commit)
        _measure(place, "warm_up_jdbc", _jdbc_append)
        for number in range(RUNS):
            ours.append(_measure(place, f"ours_{number}", _copy_check_commit))
            theirs.append(_measure(place, f"jdbc_{number}", _jdbc_append))
            for side, done in (("ours", ours[-1]), ("Spark JDBC + append", theirs[-1])):
                spent = done.core_seconds / ROWS * 1e6
                _tell(
                    f"run {number + 1}: {side}: {done.rate:.3f} million rows/s, {spent:.2f} core-seconds per "
                    "million rows"
                )
        place.spark.stop()
    yardstick = "Spark JDBC read + Iceberg append, uuid as text"
    return (
        compare(
            "tiering: copy, check, commit",
            [x.rate for x in ours],
            yardstick,
            [x.rate for x in theirs],
            "million rows/s",
            2.5,
        ),
        compare(
            "tiering: rows per second of processor time",
            [x.rows_per_core_second for x in ours],
            yardstick,
            [x.rows_per_core_second for x in theirs],
            "million rows/core-second",
            2.5,
        ),
        within("tiering: memory of a Spark task", max(x.peak_bytes for x in ours) / 2**20, _MEMORY_LIMIT_MIB, "MiB"),
    )


@contextmanager
def open_postgres(scratch: Path) -> Iterator[PostgresServer]:
    scratch.chmod(0o755)
    server = PostgresServer(
        scratch / "pg", free_port(), {"shared_buffers": "1GB", "max_wal_size": "8GB"}, password=uuid.uuid4().hex
    )
    server.init()
    server.start()
    try:
        yield server
    finally:
        server.remove()


def _prepare(server: PostgresServer, warehouse: Path) -> Place:
    with closing(connect(server.dsn(), autocommit=True)) as conn:
        apply_migrations(conn)
        conn.execute(_HEAP)
        conn.execute(_FILL, [ROWS])
        conn.execute("vacuum analyze public.events")
        row = conn.execute("select pg_relation_size('public.events')").fetchone()
        assert row
        endpoint = read_endpoint(conn)
    spark = open_spark_session(
        SparkPlan(
            catalog=lake_catalog().spark_properties(endpoint, str(warehouse)),
            warehouse=str(warehouse),
            master=f"local[{CORES}]",
            driver_memory="2g",
        )
    )
    spark.sql("create namespace thermocline.public")
    return Place(dsn=server.dsn(), endpoint=endpoint, spark=spark, ranges=plan_block_ranges(row[0], CORES))


def _measure(place: Place, name: str, work: Callable[[Place, TableName], CopyResult | None]) -> Run:
    """What one side takes into a fresh lake table, which must then hold every row."""
    is_ours = work is _copy_check_commit
    place.spark.sql(_LAKE.format(name=name, ref="" if is_ours else ", ref string"))
    if is_ours:
        _add_uuid(place.spark, TableName("public", name))
    spent, started = _core_seconds(), time.perf_counter()
    result = work(place, TableName("public", name))
    seconds, spent = time.perf_counter() - started, _core_seconds() - spent
    counted = (
        place.spark.table(f"thermocline.public.{name}")
        .selectExpr("count(*)", "count(distinct id)", "count(ref)")
        .first()
    )
    assert counted is not None
    assert tuple(counted) == (ROWS, ROWS, ROWS)
    place.spark.sql(f"drop table thermocline.public.{name} purge")
    return Run(seconds=seconds, core_seconds=spent, peak_bytes=result.peak_bytes if result else 0)


def _add_uuid(spark: SparkSession, name: TableName) -> None:
    """Spark's SQL has no uuid; Iceberg's own interface does."""
    jvm: Any = spark._jvm
    load_table(spark, name).table.updateSchema().addColumn(
        "ref", jvm.org.apache.iceberg.types.Types.UUIDType.get()
    ).commit()


def _core_seconds() -> float:
    """Processor time of this process and its children, ended ones included."""
    this = psutil.Process()
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _copy_check_commit(place: Place, lake: TableName) -> CopyResult:
    head = load_table(place.spark, lake)
    op_id = str(uuid.uuid4())
    with closing(connect(place.dsn)) as conn:
        conn.execute("set transaction isolation level repeatable read")
        row = conn.execute("select pg_export_snapshot()").fetchone()
        assert row
        tasks = [
            CopyTask(
                dsn=place.dsn,
                table_id=1,
                op_id=op_id,
                number=number,
                partition=HEAP,
                snapshot_name=row[0],
                lo_block=low,
                hi_block=high,
                columns=_COLUMNS,
                tier_key="ts",
                lake_partition=head.partition,
                directory=head.location,
            )
            for number, (low, high) in enumerate(place.ranges)
        ]
        result = copy_partition(place.spark, tasks)
    assert result.is_exact
    append_range(head, result.files, OpStamp(op_id=op_id, kind="tier", table_id=1), None)
    return result


def _jdbc_append(place: Place, lake: TableName) -> None:
    predicates = [
        f"ctid >= '({low},0)'" + ("" if high is None else f" and ctid < '({high},0)'") for low, high in place.ranges
    ]
    options = {
        "user": place.endpoint.user,
        "password": place.endpoint.password,
        "driver": "org.postgresql.Driver",
        "fetchsize": "10000",
    }
    rows = place.spark.read.jdbc(jdbc_url(place.endpoint), "public.events", predicates=predicates, properties=options)
    rows = rows.select("id", "ts", "kind", "amount", "score", "note", "ref")
    rows.writeTo(f"thermocline.{lake.schema}.{lake.table}").append()


def _column(field_id: int, name: str, base_type: str, lake_type: str) -> LakeColumn:
    return LakeColumn(
        name=name,
        field_id=field_id,
        base_type=base_type,
        pg_type=base_type,
        lake_type=lake_type,
        form="native",
        required=name in ("id", "ts"),
    )


_COLUMNS = (
    _column(1, "id", "int8", "long"),
    _column(2, "ts", "timestamptz", "timestamptz"),
    _column(3, "kind", "text", "string"),
    _column(4, "amount", "numeric", "decimal(12, 2)"),
    _column(5, "score", "float8", "double"),
    _column(6, "note", "text", "string"),
    _column(7, "ref", "uuid", "uuid"),
)


def _tell(sentence: str) -> None:
    print(f"bench: {sentence}", file=sys.stderr, flush=True)
