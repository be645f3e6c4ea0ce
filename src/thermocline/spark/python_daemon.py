"""Spark's Python daemon, with the kernels imported beforehand.

Spark forks a Python worker for each core and ends it after an idle minute. Importing Arrow, numpy, ADBC and the kernels
takes a new worker almost two core-seconds; a worker forked from this daemon has them from the start. Objects loaded
here are never garbage, so they are excluded from the collection that a worker runs after each task.

Before every task a worker also invalidates its import caches, and for an archive that means reading its directory
again: Spark's own jar, `pyspark.zip` and each package in it, a tenth of a core-second per task. They do not change
while Spark runs, so they are not read again.
"""

from __future__ import annotations

import gc
from zipimport import zipimporter

from pyspark.daemon import manager

import thermocline.spark.kernels.compact_bin
import thermocline.spark.kernels.copy_partition
import thermocline.spark.kernels.fold_range  # noqa: F401


def keep_archives() -> None:
    """Let a worker keep its import caches of archives."""
    zipimporter.invalidate_caches = lambda _self: None  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    keep_archives()
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
