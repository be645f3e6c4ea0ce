"""Make a Spark session that can read and commit the lake.

The Spark catalog is called `thermocline`: the lake table of `public.events` is `thermocline.public.events`. Which
Iceberg catalog that is, the caller's properties say (`lake/catalogs`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from thermocline.core.names import LAKE_CATALOG, TableName
from thermocline.runtime.artifacts import spark_jar_paths
from thermocline.runtime.file_io import fsync_environment
from thermocline.runtime.object_store import current_store, is_object_location

_CATALOGS: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """What a session is made from. `catalog` are Iceberg's catalog properties; `warehouse` is a URI or an absolute
    path; `extra` overrides the defaults of the context."""

    catalog: Mapping[str, str] = field(repr=False)
    warehouse: str
    master: str = "local[*]"
    app_name: str = "thermocline"
    driver_memory: str = "1g"
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)


def open_spark_session(plan: SparkPlan) -> SparkSession:
    """A new session for `plan`. The Spark context is one per process: it keeps the first plan's master and jars."""
    # Executors run the driver's interpreter, so that both load the same package and the same pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    builder = SparkSession.builder.master(plan.master).appName(plan.app_name)
    for name, value in plan_context_conf(
        plan, spark_jar_paths(object_store=is_object_location(plan.warehouse))
    ).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate().newSession()
    for name, value in plan_catalog_conf(plan).items():
        session.conf.set(name, value)
    if is_object_location(plan.warehouse):
        # Tasks read the store from their environment.
        session.sparkContext.environment.update(current_store().environment())
    session.sparkContext.environment.update(fsync_environment())
    session.sparkContext.setLogLevel("ERROR")
    return session


def plan_context_conf(plan: SparkPlan, jars: Iterable[Path]) -> dict[str, str]:
    """The configuration that is fixed for the life of the Spark context."""
    conf = {
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": plan.driver_memory,
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "thermocline.spark.python_daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
    }
    if plan.master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf | dict(plan.extra)


def plan_catalog_conf(plan: SparkPlan) -> dict[str, str]:
    """Where this session's lake is."""
    catalog = f"spark.sql.catalog.{LAKE_CATALOG}"
    return {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{catalog}.{name}": value for name, value in plan.catalog.items()},
        # Another process may commit at any time, so a cached table may be stale.
        f"{catalog}.cache-enabled": "false",
    }


def java_catalog(spark: SparkSession) -> Any:
    """Iceberg's Java catalog object of this session, one per session. Independent of the JVM's active session."""
    jvm: Any = spark._jvm
    if (held := _CATALOGS.get(spark)) is not None:
        return held
    prefix = f"spark.sql.catalog.{LAKE_CATALOG}."
    options = {key.removeprefix(prefix): spark.conf.get(key) for key in _catalog_keys(spark, prefix)}
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    for name in [found for found in options if found.startswith("hadoop.")]:
        hadoop.set(name.removeprefix("hadoop."), options[name])
    catalog = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(LAKE_CATALOG, options, hadoop)
    _CATALOGS[spark] = catalog
    return catalog


def _catalog_keys(spark: SparkSession, prefix: str) -> list[str]:
    jvm_conf: Any = spark._jsparkSession.conf().getAll()
    keys = jvm_conf.keysIterator()
    found = []
    while keys.hasNext():
        if (key := str(keys.next())).startswith(prefix):
            found.append(key)
    return found


def lake_identifier(name: TableName) -> str:
    """The lake table of a heap table, quoted for Spark SQL and for Iceberg's loader."""
    return f"{LAKE_CATALOG}.{_backquoted(name.schema)}.{_backquoted(name.table)}"


def _backquoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"
