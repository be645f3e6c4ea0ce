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

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from thermocline.core.names import LAKE_CATALOG, TableName
from thermocline.errors import SparkNotStarted
from thermocline.runtime.artifacts import spark_jar_paths
from thermocline.runtime.directories import make_private_directory
from thermocline.runtime.file_io import fsync_environment
from thermocline.runtime.object_store import current_store, is_object_location

_LOG4J = Path(__file__).with_name("log4j2.properties")
_CATALOGS: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """What a session is made from. `catalog` are Iceberg's catalog properties; `warehouse` is a URI or an absolute
    path; `log_path` is the file of the JVM's output (None: ours); `extra` overrides the defaults of the context; tasks
    get `task_environment`."""

    catalog: Mapping[str, str] = field(repr=False)
    warehouse: str
    master: str = "local[*]"
    app_name: str = "thermocline"
    driver_memory: str = "1g"
    log_path: Path | None = None
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)
    task_environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def open_spark_session(plan: SparkPlan) -> SparkSession:
    """A new session for `plan`. The Spark context is one per process: it keeps the first plan's master and jars."""
    # Executors run the driver's interpreter, so that both load the same package and the same pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("PYARROW_IGNORE_TIMEZONE", "1")
    builder = SparkSession.builder.master(plan.master).appName(plan.app_name)
    conf = plan_context_conf(plan, spark_jar_paths(object_store=is_object_location(plan.warehouse)))
    for name, value in conf.items():
        builder = builder.config(name, value)
    if plan.log_path is not None:
        _launch_quietly(conf, plan.log_path)
    session = builder.getOrCreate().newSession()
    for name, value in plan_catalog_conf(plan).items():
        session.conf.set(name, value)
    if is_object_location(plan.warehouse):
        # Tasks read the store from their environment.
        session.sparkContext.environment.update(current_store().environment())
    session.sparkContext.environment.update({**fsync_environment(), **plan.task_environment})
    session.sparkContext.setLogLevel("ERROR")
    return session


def _launch_quietly(conf: Mapping[str, str], log_path: Path) -> None:
    """Start the JVM of this process, unless it runs, with its output in a file: what Java and Spark print at a start is
    no message of ours. Python workers of tasks inherit the file."""
    make_private_directory(log_path.parent)
    with SparkContext._lock, log_path.open("ab") as log:
        if SparkContext._gateway:
            return
        try:
            settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
            gateway = launch_gateway(settings, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError:
            raise SparkNotStarted(f"Spark did not start; its output is in {log_path}.") from None
        SparkContext._ensure_initialized(gateway=gateway)


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
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dlog4j2.configurationFile=file:{_LOG4J}",
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
