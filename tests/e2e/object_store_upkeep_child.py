"""Maintains an Iceberg table on an object store, in a process with a Spark of its own; what it finds is printed as
JSON."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import boto3  # type: ignore[import-untyped]
from tests.maintenance_ops import run_prune_metadata, run_remove_orphans
from tests.object_store import BUCKET

from thermocline.core.names import TableName
from thermocline.core.policy.policy import Policy
from thermocline.errors import ThermoclineError
from thermocline.lake.commit.compare_and_swap import load_table
from thermocline.maintain.context import LakeTarget, PassContext
from thermocline.ops.requests.lazy_spark import lazy_spark_session
from thermocline.runtime.object_store import current_store
from thermocline.runtime.pg import Connection
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings

NAME = TableName("lab", "events")
T = "thermocline.lab.events"


class Upkeep:
    """The table and what is asked of it."""

    def __init__(self, dsn: str, warehouse: str, conn: Connection) -> None:
        self.conn, self.dsn = conn, dsn
        self.settings = Settings(dsn=dsn, warehouse=warehouse, spark_master="local[2]")
        self.spark = lazy_spark_session(dsn, self.settings)
        store = current_store()
        self.s3: Any = boto3.client(
            "s3",
            endpoint_url=store.endpoint,
            aws_access_key_id=store.access_key,
            aws_secret_access_key=store.secret_key,
            region_name=store.region,
        )

    def context(self, lake_id: int) -> PassContext:
        return PassContext(
            conn=self.conn,
            dsn=self.dsn,
            spark=self.spark,
            settings=self.settings,
            target=LakeTarget(name=NAME, lake_id=lake_id),
            policy=Policy(),
            now=datetime.now(UTC),
            worker="child",
        )

    def read_keys(self) -> list[str]:
        return [found["Key"] for found in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def put(self, key: str) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=b"left behind")

    def spell_head(self, old: str, new: str) -> str:
        location = load_table(self.spark(), NAME).metadata_location
        spelled = location.replace(old, new, 1)
        self.conn.execute("update thermocline_iceberg.iceberg_tables set metadata_location = %s", [spelled])
        return location


def told(run: Any, context: PassContext) -> str:
    try:
        return str(run(context).sentence)
    except ThermoclineError as refusal:
        return f"{type(refusal).__name__}: {refusal}"


def main(dsn: str, warehouse: str) -> dict[str, Any]:
    with closing(connect(dsn, autocommit=True)) as conn:
        upkeep = Upkeep(dsn, warehouse, conn)
        spark = upkeep.spark()
        spark.sql("create namespace thermocline.lab")
        spark.sql(
            f"create table {T} (id bigint) using iceberg tblproperties ('write.metadata.previous-versions-max'='1')"
        )
        row = conn.execute(
            "insert into thermocline.lake_tables (namespace, name) values ('lab', 'events') returning id"
        ).fetchone()
        assert row is not None
        for at in range(4):
            spark.sql(f"insert into {T} values ({at})")
        context, said = upkeep.context(row[0]), dict[str, Any]()
        folder = load_table(spark, NAME).location.removeprefix(f"s3://{BUCKET}/")
        location = upkeep.spell_head("s3://", "s3a://")
        said["prune"] = told(run_prune_metadata, context)
        said["head is there"] = location.removeprefix(f"s3://{BUCKET}/") in upkeep.read_keys()
        said["metadata files"] = sum(key.endswith(".metadata.json") for key in upkeep.read_keys())
        live = next(key for key in upkeep.read_keys() if "/data/" in key)
        for key in (
            f"{folder}/data/fresh.parquet",
            f"{folder}/data/old orphan+#?.parquet",
            live.replace("/data/", "/data//"),
        ):
            upkeep.put(key)
        said["sweep"] = told(run_remove_orphans, context)
        put = {"fresh.parquet", "old orphan+#?.parquet"}
        said["left"] = sorted(put & {key.removeprefix(f"{folder}/data/") for key in upkeep.read_keys()})
        said["rows"] = sorted(found.id for found in spark.table(T).collect())
        said["double slash kept"] = live.replace("/data/", "/data//") in upkeep.read_keys()
        upkeep.put(f"{folder}/data/old-live.parquet")
        conn.execute(
            "insert into thermocline.staged_files (path, lake_id, op_id) values (%s, %s, gen_random_uuid())",
            [f"s3a://{BUCKET}/{folder}/data//old-live.parquet", row[0]],
        )
        said["refused"] = told(run_remove_orphans, context)
        said["live is there"] = f"{folder}/data/old-live.parquet" in upkeep.read_keys()
        spark.stop()
        return said


if __name__ == "__main__":
    print("SAID " + json.dumps(main(*sys.argv[1:])))
