"""A database with our catalog, heap tables in it and their lake tables, read back by every engine we have."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
from psycopg import sql
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from thermocline.core.columns import HeapColumn, LakeColumn, plan_lake_columns
from thermocline.core.names import TableName
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.spark.jobs.copy import CopyResult, copy_partition, plan_block_ranges
from thermocline.spark.kernels.copy_partition import CopyTask
from thermocline.spark.spark_session import lake_identifier

_COLUMNS = """
    select a.attname, a.attnum::int, t.typname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           information_schema._pg_numeric_precision(a.atttypid, a.atttypmod),
           information_schema._pg_numeric_scale(a.atttypid, a.atttypmod)
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDatabase:
    """One database with its lake."""

    dsn: str
    warehouse: Path
    spark: SparkSession

    def connect(self) -> psycopg.Connection[Any]:
        return connect(self.dsn, autocommit=True)

    def run(self, statement: str, **parts: str) -> None:
        with closing(self.connect()) as conn:
            conn.execute(_with_parts(statement, parts))

    def rows(self, statement: str, **parts: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as conn:
            return conn.execute(_with_parts(statement, parts)).fetchall()

    def lake_row(self, name: TableName, condition: str, *expressions: str) -> tuple[Any, ...]:
        """One row of Spark's answer about the lake table."""
        told = self.spark.table(lake_identifier(name)).where(condition).selectExpr(*expressions).first()
        assert told is not None
        return tuple(told)

    def columns(self, name: TableName, key: tuple[str, ...]) -> tuple[LakeColumn, ...]:
        with closing(self.connect()) as conn:
            found = conn.execute(_COLUMNS, [str(name)]).fetchall()
        heap = tuple(
            HeapColumn(name=n, attnum=a, base_type=b, pg_type=f, not_null=r, numeric_precision=p, numeric_scale=s)
            for n, a, b, f, r, p, s in found
        )
        return plan_lake_columns(heap, key)

    def make_lake(
        self, name: TableName, columns: tuple[LakeColumn, ...], transform: str | None, source: str
    ) -> LakeHead:
        jvm: Any = self.spark._jvm
        self.spark.sql(f"create namespace if not exists thermocline.`{name.schema}`")
        fields = [{"id": c.field_id, "name": c.name, "required": c.required, "type": c.lake_type} for c in columns]
        schema = jvm.org.apache.iceberg.SchemaParser.fromJson(
            json.dumps({"type": "struct", "schema-id": 0, "fields": fields})
        )
        source_id = next(c.field_id for c in columns if c.name == source)
        parts = (
            [{"name": f"{source}_part", "transform": transform, "source-id": source_id, "field-id": 1000}]
            if transform
            else []
        )
        spec = jvm.org.apache.iceberg.PartitionSpecParser.fromJson(schema, json.dumps({"spec-id": 0, "fields": parts}))
        catalog = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(self.spark._jsparkSession, "thermocline")
        space: Any = self.spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
        space[0] = name.schema
        ident = jvm.org.apache.iceberg.catalog.TableIdentifier.of(
            jvm.org.apache.iceberg.catalog.Namespace.of(space), name.table
        )
        catalog.createTable(ident, schema, spec, {"format-version": "2"})
        return load_table(self.spark, name)

    @contextmanager
    def snapshot(self) -> Iterator[str]:
        with closing(connect(self.dsn)) as conn:
            conn.execute("set transaction isolation level repeatable read")
            row = conn.execute("select pg_export_snapshot()").fetchone()
            assert row
            yield str(row[0])

    def tasks(
        self, head: LakeHead, columns: tuple[LakeColumn, ...], tier_key: str, snapshot: str, **changes: Any
    ) -> list[CopyTask]:
        ranges = changes.pop("ranges", None) or plan_block_ranges(
            self.rows(f"select pg_relation_size('{head.name}')")[0][0], 2
        )
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
        return (
            StaticTable.from_metadata(load_table(self.spark, name).metadata_location.replace("file:/", "file:///", 1))
            .scan()
            .to_arrow()
        )

    def lake_by_duckdb(self, name: TableName, condition: str = "true") -> pa.Table:
        head = load_table(self.spark, name)
        with closing(duckdb.connect()) as conn:
            for extension in ("avro", "iceberg"):
                conn.execute(f"load '{_extension_path(extension)}'")
            conn.execute("set timezone = 'UTC'")
            return conn.execute(
                f"select * from iceberg_scan(?, snapshot_from_id => ?) where {condition}",
                [head.metadata_location.replace("file:", ""), head.snapshot_id],
            ).to_arrow_table()


def _with_parts(statement: str, parts: dict[str, str]) -> bytes | sql.Composed:
    """The statement with fragments of a test's own in its places."""
    if not parts:
        return statement.encode()
    return sql.SQL(statement).format(**{name: sql.SQL(text) for name, text in parts.items()})


def _extension_path(name: str) -> str:
    module: Any = __import__(f"duckdb_extension_{name}")
    return str(next(Path(module.__file__).parent.rglob("*.duckdb_extension")))
