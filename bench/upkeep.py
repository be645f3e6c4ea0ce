"""Upkeep that moves no row: expiry of 5,000 snapshots, an orphan sweep over 100,000 files, 2,000 manifests rewritten.

The yardstick is Iceberg's own procedure on a table made in the same way, in the same Spark session. The memory is what this process and
the JVM's heap grew by at most while ours ran.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from bench.figures import Figure, compare, within
from bench.tiering import open_postgres
from thermocline.catalog.migrate import apply_migrations
from thermocline.cold.metadata import read_lake_table
from thermocline.core.maintenance.policy import Policy
from thermocline.core.names import TableName
from thermocline.locations import without_file_scheme
from thermocline.ops.maintain.context import LakeTarget, PassContext
from thermocline.ops.maintain.expire import run_expire_snapshots
from thermocline.ops.maintain.manifests import run_rewrite_manifests
from thermocline.ops.maintain.orphans import run_remove_orphans
from thermocline.pg import Connection, connect, read_endpoint
from thermocline.settings import Settings
from thermocline.spark.commit import load_table
from thermocline.spark.session import SparkPlan, spark_session

SNAPSHOTS = int(os.environ.get("BENCH_UPKEEP_SNAPSHOTS", "5000"))
FILES = int(os.environ.get("BENCH_UPKEEP_FILES", "100000"))
MANIFESTS = int(os.environ.get("BENCH_UPKEEP_MANIFESTS", "2000"))
_MEMORY_LIMIT_MIB = 512
_NOW = datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the benchmark runs."""

    dsn: str
    conn: Connection
    spark: SparkSession

    def make(self, name: str) -> Any:
        """An empty table, as Iceberg's Java object."""
        self.spark.sql("create namespace if not exists thermocline.bench")
        self.spark.sql(
            f"create table thermocline.bench.{name} (id bigint, part bigint) using iceberg partitioned by (part)"
            " tblproperties ('format-version' = '2')"
        )
        return load_table(self.spark, TableName("bench", name)).table

    def context(self, name: str, **policy: Any) -> PassContext:
        row = self.conn.execute(
            "insert into thermocline.lake_tables (namespace, name) values ('bench', %s) returning id", [name]
        ).fetchone()
        assert row is not None
        return PassContext(
            conn=self.conn,
            dsn=self.dsn,
            spark=lambda: self.spark,
            settings=Settings(dsn=self.dsn),
            target=LakeTarget(name=TableName("bench", name), lake_id=row[0]),
            policy=Policy(**policy),
            now=_NOW + timedelta(days=30),
            worker="bench",
        )


def run() -> Sequence[Figure]:
    with _place() as place:
        return [*_expiry(place), *_sweep(place), *_manifests(place)]


def _expiry(place: Place) -> Iterator[Figure]:
    tables = {name: place.make(name) for name in ("expiry_ours", "expiry_theirs")}
    for table in tables.values():
        _say(f"making {SNAPSHOTS:,} snapshots")
        _make_snapshots(place, table)
    context = place.context("expiry_ours", snapshot_min_retained=1, snapshot_retention_ms=1)
    with _memory(place) as grown:
        ours = _timed(lambda: run_expire_snapshots(context))
    theirs = _timed(
        lambda: place.spark.sql(
            "call thermocline.system.expire_snapshots(table => 'bench.expiry_theirs', older_than => timestamp '2100-01-01',"
            " retain_last => 1, max_concurrent_deletes => 16)"
        ).collect()
    )
    for name in tables:
        left = place.spark.sql(f"select count(*) from thermocline.bench.{name}.snapshots").first()
        assert left is not None
        assert left[0] == 1, f"{name} has {left[0]} snapshots left"
    yield compare("expiry", [SNAPSHOTS / ours], "Iceberg expire_snapshots", [SNAPSHOTS / theirs], "snapshots/s", 1.0)
    yield within("expiry, memory", grown(), _MEMORY_LIMIT_MIB, "MiB")


def _sweep(place: Place) -> Iterator[Figure]:
    folders = []
    for name in ("sweep_ours", "sweep_theirs"):
        table = place.make(name)
        _say(f"making {FILES:,} files")
        folders.append(_make_files(place, table))
    context = place.context("sweep_ours")
    with _memory(place) as grown:
        ours = _timed(lambda: run_remove_orphans(context))
    theirs = _timed(
        lambda: place.spark.sql(
            "call thermocline.system.remove_orphan_files(table => 'bench.sweep_theirs', max_concurrent_deletes => 16)"
        ).collect()
    )
    left = [sum(1 for _ in folder.glob("*.parquet")) for folder in folders]
    assert left[0] == left[1] == FILES // 2, left
    yield compare("orphan sweep", [FILES / ours], "Iceberg remove_orphan_files", [FILES / theirs], "files/s", 1.0)
    yield within("orphan sweep, memory", grown(), _MEMORY_LIMIT_MIB, "MiB")


def _manifests(place: Place) -> Iterator[Figure]:
    for name in ("manifests_ours", "manifests_theirs"):
        _say(f"making {MANIFESTS:,} manifests")
        _make_manifests(place, place.make(name))
    before = _plan_seconds(place, "manifests_ours")
    context = place.context("manifests_ours", manifest_rewrite_min_manifests=2)
    theirs = _timed(lambda: place.spark.sql("call thermocline.system.rewrite_manifests('bench.manifests_theirs')").collect())
    ours = _timed(lambda: run_rewrite_manifests(context))
    after = _plan_seconds(place, "manifests_ours")
    yield compare("manifests", [MANIFESTS / ours], "Iceberg rewrite_manifests", [MANIFESTS / theirs], "manifests/s", 1.0)
    yield compare("plans after rewriting manifests", [1 / after], "plans before", [1 / before], "plans/s", 5.0)


def _plan_seconds(place: Place, name: str) -> float:
    """How long one partition takes to plan, from the metadata file on, by Iceberg itself."""
    jvm: Any = place.spark._jvm
    table = load_table(place.spark, TableName("bench", name)).table
    started = time.perf_counter()
    tasks = table.newScan().filter(jvm.org.apache.iceberg.expressions.Expressions.equal("part", 1)).planFiles()
    found = tasks.iterator()
    assert found.hasNext()
    while found.hasNext():
        found.next()
    tasks.close()
    return time.perf_counter() - started


def _make_snapshots(place: Place, table: Any) -> None:
    """A file in, and the one before it out, per snapshot: every old snapshot has files of its own."""
    transaction = table.newTransaction()
    previous = None
    for at in range(SNAPSHOTS):
        file = _data_file(place, table, f"s{at}", at % 16, on_disk=True)
        update = transaction.newOverwrite().addFile(file)
        if previous is not None:
            update = update.deleteFile(previous)
        update.commit()
        previous = file
    transaction.commitTransaction()


def _make_files(place: Place, table: Any) -> Path:
    """Half of the files are the table's, half are nobody's, all of them old."""
    folder = Path(without_file_scheme(table.location())) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    old = time.time() - 30 * 24 * 3600
    for at in range(FILES):
        path = folder / f"f{at}.parquet"
        path.touch()
        os.utime(path, (old, old))
    update = table.newAppend()
    for at in range(FILES // 2):
        update.appendFile(_data_file(place, table, f"f{at}", at % 16))
    update.commit()
    return folder


def _make_manifests(place: Place, table: Any) -> None:
    """One snapshot of many manifests, each with files of every partition."""
    iceberg: Any = place.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    update = table.newFastAppend()
    for at in range(MANIFESTS):
        target = table.io().newOutputFile(f"{table.location()}/metadata/made-{uuid.uuid4()}-m{at}.avro")
        writer = iceberg.ManifestFiles.write(table.spec(), target)
        for part in range(4):
            writer.add(_data_file(place, table, f"m{at}-{part}", (at * 4 + part) % 64))
        writer.close()
        update.appendManifest(writer.toManifestFile())
    update.commit()


def _data_file(place: Place, table: Any, name: str, part: int, *, on_disk: bool = False) -> Any:
    iceberg: Any = place.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    path = f"{table.location()}/data/{name}.parquet"
    if on_disk:
        local = Path(without_file_scheme(path))
        local.parent.mkdir(parents=True, exist_ok=True)
        local.touch()
    builder = iceberg.DataFiles.builder(table.spec()).withPath(path).withFileSizeInBytes(1000).withRecordCount(10)
    return builder.withFormat("parquet").withPartitionPath(f"part={part}").build()


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def _memory(place: Place) -> Iterator[Callable[[], float]]:
    """The largest growth of this process and of the JVM's used heap while the block ran, in MiB."""
    jvm: Any = place.spark._jvm
    jvm.java.lang.System.gc()
    read_lake_table.cache_clear()
    process, runtime = psutil.Process(), jvm.java.lang.Runtime.getRuntime()

    def used() -> int:
        return int(process.memory_info().rss) + int(runtime.totalMemory() - runtime.freeMemory())

    start = used()
    peak, over = [start], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            peak[0] = max(peak[0], int(process.memory_info().rss) + int(runtime.totalMemory() - runtime.freeMemory()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield lambda: (peak[0] - start) / 2**20
    over.set()
    watcher.join()


@contextmanager
def _place() -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-upkeep-") as directory,
        open_postgres(Path(directory)) as server,
        closing(connect(server.dsn(), autocommit=True)) as conn,
    ):
        apply_migrations(conn)
        plan = SparkPlan(endpoint=read_endpoint(conn), warehouse=f"{directory}/lake", master="local[2]", driver_memory="2g")
        yield Place(dsn=server.dsn(), conn=conn, spark=spark_session(plan))


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
