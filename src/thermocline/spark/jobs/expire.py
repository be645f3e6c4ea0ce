"""Delete the rows of a key range from files that also hold other rows: a few Spark tasks, one result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from pyspark.sql import SparkSession

from thermocline.parquet.deletes.position_deletes import WrittenDeletes
from thermocline.spark.jobs.tasks import run_tasks
from thermocline.spark.kernels.expire_rows import ExpireTask, expire_rows
from thermocline.spark.kernels.fold_range import CandidateFile


def delete_rows(spark: SparkSession, whole: ExpireTask) -> tuple[WrittenDeletes, ...]:
    """Split the task's files over the cores, adjacent files together, and collect the delete files that were
    written."""
    if not whole.files:
        return ()
    tasks = [
        replace(whole, number=whole.number + number, files=part) for number, part in enumerate(_parts(spark, whole))
    ]
    written = run_tasks(spark, tasks, expire_rows, f"Deleting rows from {whole.directory}")
    return tuple(file for files in written for file in files)


def _parts(spark: SparkSession, whole: ExpireTask) -> Sequence[tuple[CandidateFile, ...]]:
    files = sorted(whole.files, key=lambda file: (file.lower_key, file.path))
    count = min(len(files), spark.sparkContext.defaultParallelism)
    edges = [len(files) * number // count for number in range(count + 1)]
    return [tuple(files[lo:hi]) for lo, hi in pairwise(edges)]
