"""Copy one heap partition into lake files: one Spark task per block range, one result.

A retried or speculative attempt writes under names of its own, and only the attempt whose result comes back is counted: the files of
every other one stay registered as staged and are cleaned up with the op. A refusal is carried back as a value, because trying again would
not help it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from thermocline.errors import RefusedError, SparkTaskFailed, ThermoclineError
from thermocline.spark.kernels.checksum import RowSum
from thermocline.spark.kernels.copy_in import CopiedRange, CopyTask, copy_range
from thermocline.spark.kernels.parquet_out import LakeFile

DEFAULT_RANGE_BYTES = 128 << 20
_BLOCK_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyResult:
    """All files of a partition, and the check of both sides; `heap == lake` must hold before anything is committed."""

    files: tuple[LakeFile, ...]
    heap: RowSum
    lake: RowSum
    peak_bytes: int

    @property
    def is_exact(self) -> bool:
        return self.heap == self.lake == RowSum(rows=sum(file.rows for file in self.files), total=self.heap.total)


def plan_block_ranges(
    size_bytes: int, parallelism: int, range_bytes: int = DEFAULT_RANGE_BYTES, block_bytes: int = _BLOCK_BYTES
) -> tuple[tuple[int, int | None], ...]:
    """Block ranges that cover a partition: enough for every core, none much larger than `range_bytes`; the last one is open-ended.

    It is open-ended because the relation may have grown since its size was read; the snapshot decides which rows count.
    """
    blocks = -(-size_bytes // block_bytes)
    per_range = max(1, range_bytes // block_bytes)
    count = max(-(-blocks // per_range), min(parallelism, max(1, blocks // 512)), 1)
    edges = [blocks * number // count for number in range(count)]
    return tuple(zip(edges, [*edges[1:], None], strict=True))


def copy_partition(spark: SparkSession, tasks: Sequence[CopyTask]) -> CopyResult:
    """Run the tasks and gather what their counted attempts wrote."""
    if not tasks:
        return CopyResult(files=(), heap=RowSum(), lake=RowSum(), peak_bytes=0)
    try:
        run = partial(_run, attempts=read_max_attempts(spark))
        outcomes = spark.sparkContext.parallelize(tasks, len(tasks)).map(run).collect()
    except Py4JError as problem:
        raise SparkTaskFailed(f"Copying {tasks[0].partition} failed: {render_reason(_java_text(problem))}.") from None
    ranges = [_opened(outcome) for outcome in outcomes]
    if sorted(done.number for done in ranges) != sorted(task.number for task in tasks):
        raise SparkTaskFailed(f"Copying {tasks[0].partition} gave the results of other tasks than were asked for.")
    return CopyResult(
        files=tuple(file for done in ranges for file in done.files),
        heap=sum((done.heap for done in ranges), RowSum()),
        lake=sum((done.lake for done in ranges), RowSum()),
        peak_bytes=max(done.peak_bytes for done in ranges),
    )


def read_max_attempts(spark: SparkSession) -> int:
    """How often Spark runs a task before it gives up; a local master has a rule of its own."""
    context = spark.sparkContext
    if found := re.fullmatch(r"local(?:\[[^,\]]+(?:,\s*(\d+))?\])?", str(context.master)):
        return int(found[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def _run(task: CopyTask, attempts: int) -> CopiedRange | ThermoclineError:
    """One attempt. Refusals, and the failure of the last attempt, come back as values: a sentence instead of a stack in the logs."""
    context = TaskContext.get()
    attempt, unique = (context.attemptNumber(), context.taskAttemptId()) if context else (0, 0)
    try:
        return copy_range(task, unique)
    except RefusedError as refusal:
        return refusal
    except Exception as problem:
        if attempt + 1 < attempts:
            raise
        if isinstance(problem, ThermoclineError):
            return problem
        return SparkTaskFailed(f"Copying {task.partition} failed: {render_reason(str(problem))}.")


def _opened(outcome: CopiedRange | ThermoclineError) -> CopiedRange:
    if isinstance(outcome, ThermoclineError):
        raise outcome
    return outcome


def render_reason(text: str) -> str:
    """The sentence in a long message: Postgres' own when there is one, and never what a connection string might hold."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if "ERROR:" in line or "FATAL:" in line), lines[0] if lines else "no reason given")
    sentence = re.sub(r"^.*?\b(?:ERROR|FATAL):\s*", "", said)
    return re.sub(r"password=\S+|//[^@\s/]+@", "…", sentence).rstrip(".")


def _java_text(problem: Py4JError) -> str:
    return str(problem.java_exception.getMessage()) if isinstance(problem, Py4JJavaError) else str(problem)
