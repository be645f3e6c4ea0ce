"""Iceberg tables that Postgres does not know, to be maintained: written by Spark and by Iceberg's Java API, read back
by two engines."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.maintenance_ops import run_compact
from tests.spark.lake_database import LakeDatabase

from thermocline.core.maintenance.files import LakeSnapshot
from thermocline.core.maintenance.outcome import Outcome
from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.lake.commit.compare_and_swap import LakeHead, load_table
from thermocline.lake.read.table_files import TableFiles
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

Row = tuple[Any, ...]
EAGER = Policy(preset="artemis", rewrite_min_input_files=2, min_input_scope="partition", splice_min_row_group_bytes=0)
"""Any two small files of a partition are worth merging."""


@dataclass(slots=True, kw_only=True)
class Lake:
    """One lake table under maintenance."""

    lake_database: LakeDatabase
    name: TableName
    lake_id: int
    policy: Policy = EAGER
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def make(
        cls,
        lake_database: LakeDatabase,
        columns: str,
        *,
        table: str = "events",
        partitioned: str = "",
        properties: str = "",
    ) -> Lake:
        """A table by Spark's own DDL; its first spec has no fields, so that deletes of all partitions can be
        written."""
        name = TableName("db", table)
        lake_database.spark.sql("create namespace if not exists thermocline.db")
        options = f"tblproperties ('format-version' = '2', 'write.distribution-mode' = 'none'{properties})"
        lake_database.spark.sql(f"create table thermocline.db.{table} ({columns}) using iceberg {options}")
        if partitioned:
            lake_database.spark.sql(f"alter table thermocline.db.{table} add partition field {partitioned}")
        return cls(lake_database=lake_database, name=name, lake_id=_add(lake_database, name))

    @classmethod
    def adopt(cls, lake_database: LakeDatabase, table: str) -> Lake:
        """A table that is there."""
        name = TableName("db", table)
        return cls(lake_database=lake_database, name=name, lake_id=_add(lake_database, name))

    @property
    def spark(self) -> SparkSession:
        return self.lake_database.spark

    @property
    def sql_name(self) -> str:
        return f"thermocline.{self.name.schema}.{self.name.table}"

    def append(self, rows: Sequence[Row], files: int = 1) -> None:
        """Rows in so many files, in one commit."""
        schema = self.spark.table(self.sql_name).schema
        self.spark.createDataFrame(list(rows), schema).repartition(files).writeTo(self.sql_name).append()

    def run(self, statement: str) -> None:
        self.spark.sql(statement.format(t=self.sql_name))

    def head(self) -> LakeHead:
        return load_table(self.spark, self.name)

    def seen(self) -> LakeSnapshot:
        head = self.head()
        assert head.snapshot_id is not None
        return TableFiles().read(read_lake_table(head.metadata_location).metadata, head.snapshot_id)

    def rows(self) -> list[Row]:
        """All rows, as Spark reads them and as DuckDB does; both must agree."""
        by_spark = _sorted(tuple(row) for row in self.spark.table(self.sql_name).collect())
        by_duckdb = _sorted(tuple(row.values()) for row in self.lake_database.lake_by_duckdb(self.name).to_pylist())
        assert by_spark == by_duckdb
        return by_spark

    def spark_rows(self) -> list[Row]:
        return _sorted(tuple(row) for row in self.spark.table(self.sql_name).collect())

    @contextmanager
    def context(self, **changes: Any) -> Any:
        policy = replace(self.policy, **changes.pop("policy", {}))
        with closing(connect(self.lake_database.dsn, autocommit=True)) as conn:
            yield PassContext(
                conn=conn,
                dsn=self.lake_database.dsn,
                spark=lambda: self.spark,
                settings=Settings(dsn=self.lake_database.dsn),
                target=LakeTarget(name=self.name, lake_id=self.lake_id),
                policy=policy,
                now=self.now,
                worker="test",
                pass_id=uuid.uuid4(),
                **changes,
            )

    def compact(self, **changes: Any) -> Outcome:
        context_changes = {
            key: changes.pop(key) for key in ("dry_run", "why_pause", "report_progress") if key in changes
        }
        with self.context(policy=changes, **context_changes) as context:
            return run_compact(context)

    def staged(self) -> list[str]:
        return [row[0] for row in self.lake_database.rows("select path from thermocline.staged_files")]

    def add_file(self, table: pa.Table, **options: Any) -> str:
        """Add a data file as another program writes it; its columns carry field ids."""
        head, path = self.head(), self._new_path("foreign")
        pq.write_table(table, path.removeprefix("file://"), **options)
        iceberg = self.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
        source = head.table.io().newInputFile(path)
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(source, iceberg.MetricsConfig.forTable(head.table))
        builder = (
            iceberg.DataFiles.builder(head.table.specs().get(0)).withPath(path).withFormat(iceberg.FileFormat.PARQUET)
        )
        file = (
            builder.withFileSizeInBytes(Path(path.removeprefix("file://")).stat().st_size).withMetrics(metrics).build()
        )
        head.table.newAppend().appendFile(file).commit()
        return path

    def delete_equal(self, columns: Mapping[str, pa.DataType], keys: Sequence[Row], like: str | None = None) -> str:
        """Add a file of equality deletes, global or in the partition of the data file `like`; no SQL writes one."""
        head, path = self.head(), self._new_path("eq")
        fields = {column.name: column.field_id for column in read_lake_table(head.metadata_location).fields}
        schema = pa.schema(
            [pa.field(name, kind, metadata={"PARQUET:field_id": str(fields[name])}) for name, kind in columns.items()]
        )
        arrays = [pa.array([key[at] for key in keys], kind) for at, kind in enumerate(columns.values())]
        pq.write_table(pa.table(arrays, schema=schema), path.removeprefix("file://"))
        ids = [fields[name] for name in columns]
        gateway: Any = self.spark.sparkContext._gateway
        jvm: Any = self.spark._jvm
        array = gateway.new_array(jvm.int, len(ids))
        for at, field_id in enumerate(ids):
            array[at] = field_id
        self._add_delete(path, lambda builder: builder.ofEqualityDeletes(array), like, len(keys))
        return path

    def delete_rows(self, places: Mapping[str, Sequence[int]], like: str | None = None) -> str:
        """Add one file of position deletes."""
        path = self._new_path("pos")
        named = [(said, row) for said in sorted(places) for row in sorted(places[said])]
        schema = pa.schema(
            [
                pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
            ]
        )
        columns = [[said for said, _ in named], [row for _, row in named]]
        pq.write_table(pa.table(columns, schema=schema), path.removeprefix("file://"))
        self._add_delete(path, lambda builder: builder.ofPositionDeletes(), like, len(named))
        return path

    def _new_path(self, kind: str) -> str:
        location = self.head().location.replace("file:/", "file:///", 1).replace("file://///", "file:///")
        folder = Path(location.removeprefix("file://")) / "data"
        folder.mkdir(parents=True, exist_ok=True)
        return f"file://{folder}/{kind}-{uuid.uuid4().hex[:8]}.parquet"

    def _add_delete(self, path: str, kind: Any, like: str | None, rows: int) -> None:
        head = self.head()
        iceberg = self.spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
        size = Path(path.removeprefix("file://")).stat().st_size
        data = _find(head, like) if like is not None else None
        spec = head.table.specs().get(data.specId() if data is not None else 0)
        config = (
            iceberg.MetricsConfig.forPositionDelete() if "/pos-" in path else iceberg.MetricsConfig.forTable(head.table)
        )
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(head.table.io().newInputFile(path), config)
        builder = kind(iceberg.FileMetadata.deleteFileBuilder(spec)).withPath(path).withFileSizeInBytes(size)
        builder = builder.withFormat(iceberg.FileFormat.PARQUET).withMetrics(metrics).withRecordCount(rows)
        if data is not None and spec.isPartitioned():
            builder = builder.withPartition(data.partition())
        head.table.newRowDelta().addDeletes(builder.build()).commit()

    def summary(self) -> dict[str, str]:
        snapshot = next(
            found for found in self.head().metadata["snapshots"] if found["snapshot-id"] == self.head().snapshot_id
        )
        return dict(snapshot["summary"])

    def entries(self) -> list[tuple[int, int, int | None]]:
        """Status, snapshot and sequence of each entry in the manifests the current snapshot added, deleted ones too."""
        found = self.spark.sql(f"select status, snapshot_id, sequence_number from {self.sql_name}.entries").collect()
        return [tuple(row) for row in found]


def _find(head: LakeHead, path: str) -> Any:
    tasks = head.table.newScan().planFiles()
    try:
        found = tasks.iterator()
        while found.hasNext():
            if (file := found.next().file()).location() == path:
                return file
    finally:
        tasks.close()
    raise AssertionError(f"{path} is not in the table")


def _add(lake_database: LakeDatabase, name: TableName) -> int:
    with closing(lake_database.connect()) as conn:
        row = conn.execute(
            "insert into thermocline.lake_tables (namespace, name) values (%s, %s) returning id",
            [name.schema, name.table],
        ).fetchone()
    assert row is not None
    return int(row[0])


def _sorted(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: json.dumps(row, default=str))
