"""One database, heap and lake per test; one Spark context for the whole run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.spark.ground import Ground

from thermocline.pg import connect, read_endpoint
from thermocline.spark.session import SparkPlan, spark_session

MASTER = "local[2,2]"
"""Two cores, and a failed task is tried once more."""


@pytest.fixture
def ground(database: str, tmp_path: Path) -> Ground:
    with closing(connect(database)) as conn:
        endpoint = read_endpoint(conn)
    plan = SparkPlan(endpoint=endpoint, warehouse=str(tmp_path / "lake"), master=MASTER, driver_memory="2g")
    return Ground(dsn=database, warehouse=tmp_path / "lake", spark=spark_session(plan))


@pytest.fixture
def on_flush(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], object]], None]:
    """From then on tells of each file that this process flushes to disk, just before it does."""

    def tell(listener: Callable[[Path], object]) -> None:
        fsync = os.fsync

        def tell_and_flush(handle: int) -> None:
            listener(Path(f"/proc/self/fd/{handle}").readlink())
            fsync(handle)

        monkeypatch.setattr(os, "fsync", tell_and_flush)

    return tell
