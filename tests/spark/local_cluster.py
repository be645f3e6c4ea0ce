"""A program that tiers a table on a real cluster of two executor processes; it prints what it did as JSON.

    python local_cluster.py DSN WAREHOUSE TASKS

A Spark context is one per process, so the test starts this in a process of its own. TASKS is a file of pickled copy
tasks.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from contextlib import closing
from pathlib import Path

from pyspark import TaskContext

from thermocline.core.names import TableName
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.compare_and_swap import OpStamp, append_range, load_table
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import read_endpoint
from thermocline.spark.jobs.copy import copy_partition
from thermocline.spark.spark_session import SparkPlan, open_spark_session


def main(dsn: str, warehouse: str, tasks_file: str) -> None:
    with closing(connect(dsn)) as conn:
        endpoint = read_endpoint(conn)
    options = {"spark.executor.extraJavaOptions": f"-Duser.timezone=UTC {os.environ.get('SPARK_SUBMIT_OPTS', '')}"}
    spark = open_spark_session(
        SparkPlan(
            catalog=lake_catalog().spark_properties(endpoint, warehouse),
            warehouse=warehouse,
            master="local-cluster[2,1,1024]",
            extra=options,
        )
    )
    tasks = pickle.loads(Path(tasks_file).read_bytes())
    # A barrier puts one task on each executor, so both have shown that they can load the package.
    workers = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(_where).collect()
    result = copy_partition(spark, tasks)
    name = TableName("public", "events")
    append_range(load_table(spark, name), result.files, OpStamp(op_id=tasks[0].op_id, kind="tier", table_id=1), None)
    rows = spark.sql("select count(*) from thermocline.public.events").first()
    print(
        json.dumps(
            {
                "exact": result.is_exact,
                "rows": rows[0] if rows else None,
                "executors": len(set(workers)),
                "driver": os.getpid(),
            }
        )
    )
    spark.stop()


def _where(_rows: object) -> list[int]:
    import thermocline.spark.kernels.copy_partition

    assert TaskContext.get() is not None
    assert thermocline.spark.kernels.copy_partition.__doc__
    return [os.getppid()]


if __name__ == "__main__":
    main(*sys.argv[1:])
