"""The one way to make a Spark session that can read and commit the lake.

Iceberg's JDBC catalog writes the Spark catalog's name into every row of `iceberg_tables`, and the rows must say
`thermocline` for PyIceberg to find them: so the Spark catalog is called `thermocline`, and the table of `public.events`
is `thermocline.public.events`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from thermocline.core.names import TableName
from thermocline.errors import RefusedError
from thermocline.runtime.artifacts import spark_jar_paths
from thermocline.runtime.file_io import fsync_environment
from thermocline.runtime.locations import location_of
from thermocline.runtime.object_store import current_store, is_object_location
from thermocline.runtime.pg import Endpoint

LAKE_CATALOG = "thermocline"
ICEBERG_SCHEMA = "thermocline_iceberg"
_LOCAL_FILES = {
    "hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    # Spark has opened Hadoop's own long before, and a cached one would be given whatever the setting says.
    "hadoop.fs.file.impl.disable.cache": "true",
}
"""Hadoop's own local file system starts the program `chmod` twice for each file it makes, 13 ms; this one asks the
system itself."""
_CATALOGS: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlan:
    """What a session is made from. `extra` wins over the defaults of the context; `warehouse` is a URI or an absolute
    path."""

    endpoint: Endpoint
    warehouse: str
    master: str = "local[*]"
    app_name: str = "thermocline"
    driver_memory: str = "1g"
    extra: Mapping[str, str] = field(default_factory=dict, repr=False)


def spark_session(plan: SparkPlan) -> SparkSession:
    """A session of its own on `plan`'s database. The Spark context under it is one per process: the first plan's master
    and jars stand."""
    # Executors run the same interpreter as the driver, so that the same package and the same pyarrow load on both
    # sides.
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
        # Tasks find the store by their environment, as they find Postgres by the DSN in them.
        session.sparkContext.environment.update(current_store().environment())
    session.sparkContext.environment.update(fsync_environment())
    session.sparkContext.setLogLevel("ERROR")
    return session


def plan_context_conf(plan: SparkPlan, jars: Iterable[Path]) -> dict[str, str]:
    """What is fixed for the life of the Spark context."""
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
    """Where this session's lake is; the password is in one value whose key Spark itself redacts."""
    catalog = f"spark.sql.catalog.{LAKE_CATALOG}"
    conf = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.uri": jdbc_url(plan.endpoint, schema=ICEBERG_SCHEMA),
        f"{catalog}.jdbc.user": plan.endpoint.user,
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.warehouse": location_of(plan.warehouse),
        # A server that restarted ends connections with these; the catalog connects again, and its compare-and-swap is
        # safe to repeat.
        f"{catalog}.retryable_status_codes": "57P01,57P02,57P03",
        # Another process may commit at any time, so a cached table would be a stale one.
        f"{catalog}.cache-enabled": "false",
    }
    if not is_object_location(plan.warehouse):
        conf |= {f"{catalog}.{name}": value for name, value in _LOCAL_FILES.items()}
    else:
        conf[f"{catalog}.io-impl"] = "org.apache.iceberg.io.ResolvingFileIO"
        conf |= {f"{catalog}.{name}": value for name, value in current_store().iceberg_properties().items()}
    if plan.endpoint.password:
        conf[f"{catalog}.jdbc.password"] = plan.endpoint.password
    return conf


def lake_catalog(spark: SparkSession) -> Any:
    """Iceberg's own catalog object of this session's database, whichever session the JVM thinks is active; one per
    session."""
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


def jdbc_url(endpoint: Endpoint, *, schema: str | None = None) -> str:
    """The endpoint as JDBC writes it, without role and password."""
    if endpoint.host.startswith("/"):
        raise RefusedError(
            f"Spark reaches Postgres by TCP only, and the DSN leads to the socket directory {endpoint.host}.",
            hint="Give the DSN a host name or address, for example host=127.0.0.1.",
        )
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    options = {"ApplicationName": "thermocline", "connectTimeout": "10", "tcpKeepAlive": "true"}
    if schema:
        options["currentSchema"] = schema
    return f"jdbc:postgresql://{host}:{endpoint.port}/{quote(endpoint.dbname, safe='')}?{urlencode(options)}"


def lake_identifier(name: TableName) -> str:
    """The lake table of a heap table, quoted for Spark SQL and for Iceberg's loader."""
    return f"{LAKE_CATALOG}.{_backquoted(name.schema)}.{_backquoted(name.table)}"


def _backquoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"
