"""Where a verb gets its Spark session from: made at the first need, because most cycles find nothing to copy."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from thermocline import pg
from thermocline.settings import Settings
from thermocline.spark.session import SparkPlan, spark_session


def spark_source(dsn: str, settings: Settings) -> Callable[[], SparkSession]:
    """A function that returns the session for this database and these settings."""

    def session() -> SparkSession:
        with pg.connect(dsn, application_name="thermocline spark", connect_timeout_seconds=settings.connect_timeout_seconds) as conn:
            endpoint = pg.read_endpoint(conn)
        plan = SparkPlan(
            endpoint=endpoint,
            warehouse=settings.warehouse_location,
            master=settings.spark_master,
            driver_memory=settings.spark_driver_memory,
        )
        return spark_session(plan)

    return session
