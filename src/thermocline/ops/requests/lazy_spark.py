"""Where a Spark session comes from: made when it is first needed, kept for the life of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from pyspark.sql import SparkSession

from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.ops.admin.places import warehouse_of
from thermocline.runtime.pg import Endpoint, connect, libpq_environment, read_endpoint
from thermocline.runtime.settings import Settings
from thermocline.spark.spark_session import SparkPlan, open_spark_session


def lazy_spark_session(dsn: str, settings: Settings) -> Callable[[], SparkSession]:
    """A function that gives the session of this database, starting Spark on its first call."""

    lock = threading.Lock()

    @lru_cache(maxsize=1)
    def make() -> SparkSession:
        with connect(dsn, application_name="thermocline spark") as conn:
            endpoint, warehouse = read_endpoint(conn), warehouse_of(conn, settings)
        plan = SparkPlan(
            catalog=lake_catalog().spark_properties(endpoint, warehouse),
            warehouse=warehouse,
            master=settings.spark_master,
            driver_memory=settings.spark_driver_memory,
            task_environment=_task_environment(endpoint, settings.spark_master),
            log_path=settings.dir / "logs" / "spark.log",
        )
        return open_spark_session(plan)

    def session() -> SparkSession:
        with lock:  # passes run concurrently with the cycle
            spark = make()
            lake_catalog().renew_credentials()
            return spark

    return session


def _task_environment(endpoint: Endpoint, master: str) -> dict[str, str]:
    """What libpq reads in tasks of a cluster. On this machine they inherit it, and read a passfile that changed."""
    return {} if master.startswith("local") else libpq_environment(endpoint)
