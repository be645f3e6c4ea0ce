"""Let a child process that a test kills use the test's Spark, so that it need not start its own.

What is killed is the driver, which holds the steps; Spark works on behind it, as the one of a killed worker does until
it notices.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def lend_spark(spark: SparkSession) -> dict[str, str]:
    """The environment by which a child finds the Spark of `spark`."""
    gateway: Any = spark.sparkContext._gateway
    return {_PORT: str(gateway.java_parameters.port), _SECRET: gateway.java_parameters.auth_token}


def borrow_spark() -> None:
    """Use the Spark of the parent process; without one, the first session starts its own."""
    if _PORT not in os.environ:
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the context reads it, and no session was made here yet
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    context = gateway.jvm.JavaSparkContext.fromSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))
