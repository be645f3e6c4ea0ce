"""Where a Spark session comes from: made when it is first needed, kept for the life of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

from pyspark.sql import SparkSession

from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.runtime.pg import connect, read_endpoint
from thermocline.runtime.settings import Settings
from thermocline.spark.spark_session import SparkPlan, open_spark_session


def lazy_spark_session(dsn: str, settings: Settings) -> Callable[[], SparkSession]:
    """A function that gives the session of this database, starting Spark on its first call."""

    lock = threading.Lock()

    @lru_cache(maxsize=1)
    def make() -> SparkSession:
        with connect(dsn, application_name="thermocline spark") as conn:
            endpoint = read_endpoint(conn)
        plan = SparkPlan(
            catalog=lake_catalog().spark_properties(endpoint, settings.warehouse_location),
            warehouse=settings.warehouse_location,
            master=settings.spark_master,
            driver_memory=settings.spark_driver_memory,
        )
        return open_spark_session(plan)

    def session() -> SparkSession:
        with lock:  # passes run beside the cycle
            return make()

    return session
