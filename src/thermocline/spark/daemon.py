"""Spark's Python daemon with the kernels loaded beforehand.

Spark forks a Python worker for each core and lets it go after an idle minute. Loading Arrow, numpy, ADBC and the kernels costs a fresh
worker most of two core-seconds; forked from this daemon it has them from the start. What is loaded here never becomes garbage, and is
kept out of the collection that a worker makes after each task.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import thermocline.spark.kernels.copy_in
import thermocline.spark.kernels.fold_in  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()  # type: ignore[no-untyped-call]
