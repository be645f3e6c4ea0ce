"""Where benchmarks of the lake run: a Postgres and a Spark session of their own, in a directory that goes with them."""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from bench.tiering import open_postgres
from thermocline.catalog.migrate import apply_migrations
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.maintain.engines.spark import SparkEngine
from thermocline.maintain.operations.registry import plan_operation
from thermocline.maintain.run_operation import run_operation
from thermocline.parquet.rewrite_task import BinResult
from thermocline.runtime.pg import Connection, read_endpoint
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings
from thermocline.spark.jobs.compact import Kernel
from thermocline.spark.kernels.compact_bin import run_bin
from thermocline.spark.spark_session import SparkPlan, open_spark_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a benchmark works with."""

    dsn: str
    conn: Connection
    spark: SparkSession
    directory: Path

    def context(self, table: str, policy: Policy, now: datetime | None = None) -> PassContext:
        """A pass of its own over a table of the namespace `bench`."""
        row = self.conn.execute(
            "insert into thermocline.lake_tables (namespace, name) values ('bench', %s)"
            " on conflict (catalog, namespace, name) do update set name = excluded.name returning id",
            [table],
        ).fetchone()
        assert row is not None
        return PassContext(
            conn=self.conn,
            dsn=self.dsn,
            spark=lambda: self.spark,
            settings=Settings(dsn=self.dsn),
            target=LakeTarget(name=TableName("bench", table), lake_id=row[0]),
            policy=policy,
            now=now or datetime.now(UTC),
            worker="bench",
            pass_id=uuid.uuid4(),
        )


def run_compact(context: PassContext, kernel: Kernel[BinResult] = run_bin) -> Outcome:
    return run_operation("compact", context, plan_operation, SparkEngine(kernel))


def run_expire_snapshots(context: PassContext) -> Outcome:
    return run_operation("expire_snapshots", context, plan_operation, SparkEngine())


def run_remove_orphans(context: PassContext) -> Outcome:
    return run_operation("remove_orphans", context, plan_operation, SparkEngine())


def run_rewrite_manifests(context: PassContext) -> Outcome:
    return run_operation("rewrite_manifests", context, plan_operation, SparkEngine())


@contextmanager
def open_place(driver_memory: str = "4g") -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-lake-") as directory,
        open_postgres(Path(directory)) as server,
        closing(connect(server.dsn(), autocommit=True)) as conn,
    ):
        apply_migrations(conn)
        plan = SparkPlan(
            catalog=lake_catalog().spark_properties(read_endpoint(conn), f"{directory}/lake"),
            warehouse=f"{directory}/lake",
            master="local[2]",
            driver_memory=driver_memory,
        )
        yield Place(dsn=server.dsn(), conn=conn, spark=open_spark_session(plan), directory=Path(directory))


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)
