"""One database, heap and lake per test; one Spark context for the whole run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.fsync_recorder import record_fsyncs
from tests.spark.lake_database import LakeDatabase

from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import read_endpoint
from thermocline.spark.spark_session import SparkPlan, open_spark_session

MASTER = "local[2,2]"
"""Two cores, and a failed task is tried once more."""


@pytest.fixture
def lake_database(database: str, tmp_path: Path) -> LakeDatabase:
    with closing(connect(database)) as conn:
        endpoint = read_endpoint(conn)
    warehouse = str(tmp_path / "lake")
    catalog = lake_catalog().spark_properties(endpoint, warehouse)
    plan = SparkPlan(catalog=catalog, warehouse=warehouse, master=MASTER, driver_memory="2g")
    return LakeDatabase(dsn=database, warehouse=tmp_path / "lake", spark=open_spark_session(plan))


@pytest.fixture
def on_flush() -> Iterator[Callable[[Callable[[Path], object]], None]]:
    """Call back for each file that this process flushes to disk, just before the flush."""
    with record_fsyncs() as flushes:
        yield flushes.listeners.append
