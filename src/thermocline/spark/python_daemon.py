"""Spark's Python daemon with the kernels loaded beforehand.

Spark forks a Python worker for each core and lets it go after an idle minute. Loading Arrow, numpy, ADBC and the
kernels costs a fresh worker most of two core-seconds; forked from this daemon it has them from the start. What is
loaded here never becomes garbage, and is kept out of the collection that a worker makes after each task.

Before every task a worker also forgets what it knows of the places on `sys.path`, and for an archive that means reading
its directory again: Spark's own jar, `pyspark.zip` and each package in it, a tenth of a core-second per task. They
never change while Spark runs, so they are not read again.
"""

from __future__ import annotations

import gc
from zipimport import zipimporter

from pyspark.daemon import manager

import thermocline.spark.kernels.compact_bin
import thermocline.spark.kernels.copy_partition
import thermocline.spark.kernels.fold_range  # noqa: F401


def keep_archives() -> None:
    """Let a worker keep what it knows of archives."""
    zipimporter.invalidate_caches = lambda _self: None  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    keep_archives()
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
