"""Ground to copy on: an embedded Postgres with our catalog, one Spark context for the run, and a database per test."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from thermocline.catalog.migrate import apply_migrations
from thermocline.core.coltypes import HeapColumn, LakeColumn, plan_lake_columns
from thermocline.core.names import TableName
from thermocline.pg import connect, read_endpoint, with_database
from thermocline.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port
from thermocline.spark.commit import LakeHead, load_table
from thermocline.spark.jobs.copy import CopyResult, copy_partition, plan_block_ranges
from thermocline.spark.kernels.copy_in import CopyTask
from thermocline.spark.session import SparkPlan, spark_session

_COLUMNS = """
    select a.attname, a.attnum::int, t.typname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           information_schema._pg_numeric_precision(a.atttypid, a.atttypmod), information_schema._pg_numeric_scale(a.atttypid, a.atttypmod)
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One database with its lake."""

    dsn: str
    warehouse: Path
    spark: SparkSession

    def connect(self) -> psycopg.Connection[Any]:
        return connect(self.dsn, autocommit=True)

    def run(self, statement: str) -> None:
        with closing(self.connect()) as conn:
            conn.execute(statement.encode())

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as conn:
            return conn.execute(statement.encode()).fetchall()

    def columns(self, name: TableName, key: tuple[str, ...]) -> tuple[LakeColumn, ...]:
        with closing(self.connect()) as conn:
            found = conn.execute(_COLUMNS, [str(name)]).fetchall()
        heap = tuple(
            HeapColumn(name=n, attnum=a, base_type=b, pg_type=f, not_null=r, numeric_precision=p, numeric_scale=s)
            for n, a, b, f, r, p, s in found
        )
        return plan_lake_columns(heap, key)

    def make_lake(self, name: TableName, columns: tuple[LakeColumn, ...], transform: str | None, source: str) -> LakeHead:
        jvm: Any = self.spark._jvm
        self.spark.sql(f"create namespace if not exists thermocline.`{name.schema}`")
        fields = [{"id": c.field_id, "name": c.name, "required": c.required, "type": c.lake_type} for c in columns]
        schema = jvm.org.apache.iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))
        source_id = next(c.field_id for c in columns if c.name == source)
        parts = [{"name": f"{source}_part", "transform": transform, "source-id": source_id, "field-id": 1000}] if transform else []
        spec = jvm.org.apache.iceberg.PartitionSpecParser.fromJson(schema, json.dumps({"spec-id": 0, "fields": parts}))
        catalog = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(self.spark._jsparkSession, "thermocline")
        space: Any = self.spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
        space[0] = name.schema
        ident = jvm.org.apache.iceberg.catalog.TableIdentifier.of(jvm.org.apache.iceberg.catalog.Namespace.of(space), name.table)
        catalog.createTable(ident, schema, spec, {"format-version": "2"})
        return load_table(self.spark, name)

    @contextmanager
    def snapshot(self) -> Iterator[str]:
        with closing(connect(self.dsn)) as conn:
            conn.execute("set transaction isolation level repeatable read")
            row = conn.execute("select pg_export_snapshot()").fetchone()
            assert row
            yield str(row[0])

    def tasks(self, head: LakeHead, columns: tuple[LakeColumn, ...], tier_key: str, snapshot: str, **changes: Any) -> list[CopyTask]:
        ranges = changes.pop("ranges", None) or plan_block_ranges(self.rows(f"select pg_relation_size('{head.name}')")[0][0], 2)
        op_id = changes.pop("op_id", str(uuid.uuid4()))
        return [
            CopyTask(
                dsn=self.dsn,
                table_id=1,
                op_id=op_id,
                number=number,
                partition=head.name,
                snapshot_name=snapshot,
                lo_block=low,
                hi_block=high,
                columns=columns,
                tier_key=tier_key,
                lake_partition=head.partition,
                directory=head.location,
                **changes,
            )
            for number, (low, high) in enumerate(ranges)
        ]

    def copy(self, head: LakeHead, columns: tuple[LakeColumn, ...], tier_key: str, **changes: Any) -> CopyResult:
        with self.snapshot() as snapshot:
            return copy_partition(self.spark, self.tasks(head, columns, tier_key, snapshot, **changes))

    def lake_by_pyiceberg(self, name: TableName) -> pa.Table:
        return StaticTable.from_metadata(load_table(self.spark, name).metadata_location.replace("file:/", "file:///", 1)).scan().to_arrow()

    def lake_by_duckdb(self, name: TableName) -> pa.Table:
        head = load_table(self.spark, name)
        with closing(duckdb.connect()) as conn:
            for extension in ("avro", "iceberg"):
                conn.execute(f"load '{_extension_path(extension)}'")
            conn.execute("set timezone = 'UTC'")
            return conn.execute(
                "select * from iceberg_scan(?, snapshot_from_id => ?)", [head.metadata_location.replace("file:", ""), head.snapshot_id]
            ).to_arrow_table()


def _extension_path(name: str) -> str:
    module = __import__(f"duckdb_extension_{name}")
    return next(
        os.path.join(root, file)
        for root, _, files in os.walk(os.path.dirname(module.__file__))
        for file in files
        if file.endswith(".duckdb_extension")
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # py4j lets go of its sockets to the JVM without closing them.
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def copy_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    server = PostgresServer(
        tmp_path_factory.mktemp("copy") / "pg", free_port(), {**FAST_TEST_SETTINGS, "max_wal_size": "4GB"}, password="copy"
    )
    server.init()
    server.start()
    with closing(connect(server.dsn(), autocommit=True)) as conn:
        conn.execute("create database ground")
    with closing(connect(server.dsn("ground"))) as conn:
        apply_migrations(conn)
        conn.commit()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def spark_master() -> str:
    """Two cores, and a failed task is tried once more."""
    return "local[2,2]"


@pytest.fixture
def ground(copy_server: PostgresServer, spark_master: str, tmp_path: Path) -> Iterator[Ground]:
    name = f"copy_{uuid.uuid4().hex[:12]}"
    with closing(connect(copy_server.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create database {} template ground").format(sql.Identifier(name)))
    dsn = with_database(copy_server.dsn(), name)
    with closing(connect(dsn)) as conn:
        endpoint = read_endpoint(conn)
    plan = SparkPlan(endpoint=endpoint, warehouse=str(tmp_path / "lake"), master=spark_master, driver_memory="1g")
    yield Ground(dsn=dsn, warehouse=tmp_path / "lake", spark=spark_session(plan))
    with closing(connect(copy_server.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
