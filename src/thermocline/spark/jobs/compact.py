"""Run bins of compaction on Spark: several at a time, each result returned as it arrives.

A bin is one task; small bins share one, so that a thousand tiny partitions do not cost a thousand jobs. The failure of
a bin is a value, and the other bins continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from thermocline.core.maintenance.pacing import UNPACED, Pace
from thermocline.errors import SparkTaskFailed, ThermoclineError
from thermocline.parquet.rewrite_task import BinTask
from thermocline.runtime.pg import Connection, connect
from thermocline.spark.jobs.slots import acquire_slot
from thermocline.spark.jobs.tasks import render_reason
from thermocline.spark.kernels.pace import keep_pace

Result = TypeVar("Result")
Kernel = Callable[[BinTask, Callable[[str], None], Callable[[int, int], None]], Result]
"""Arguments: a bin, the function that registers a path, the function that throttles. Returns the bin's result."""
_SHARED_BYTES = 64 << 20
_SHARED_BINS = 32
_ONE_BY_ONE = 3
_COPIED_WEIGHT = 16
"""Copying a byte takes about a sixteenth of the time of decoding and encoding it."""
_STAGE = "insert into thermocline.staged_files (path, table_id, lake_id, op_id) values (%s, %s, %s, %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The table and the pass under which files are registered before they are written."""

    dsn: str = field(repr=False)
    pass_id: str
    table_id: int | None = None
    lake_id: int | None = None
    slots: int = 0
    """The number of compaction tasks that may run at once, over all workers; 0: no limit."""

    def registrar(self, conn: Connection) -> Callable[[str], None]:
        def register(path: str) -> None:
            conn.execute(_STAGE, (path, self.table_id, self.lake_id, self.pass_id))

        return register


@dataclass(frozen=True, slots=True, kw_only=True)
class BinFailed:
    """A bin that could not be rewritten, and the reason."""

    number: int
    reason: ThermoclineError


@dataclass(frozen=True, slots=True, kw_only=True)
class BinBatch:
    """Bins that one Spark task processes in sequence, and their I/O budget."""

    staging: Staging
    bins: tuple[BinTask, ...]
    pace: Pace


def run_bins(
    spark: SparkSession,
    staging: Staging,
    tasks: Sequence[BinTask],
    kernel: Kernel[Result],
    *,
    parallel: int,
    is_over: Callable[[], bool] = lambda: False,
    pace: Callable[[], Pace] = lambda: UNPACED,
) -> Iterator[Result | BinFailed]:
    """Results in order of arrival. `is_over` is called before each job, and again when a task stopped before its last
    bin: true lets running jobs finish and starts no more."""
    at_once = max(1, min(parallel, spark.sparkContext.defaultParallelism))
    waiting = list(_plan_batches(tasks, at_once))
    at_once = min(at_once, max(len(waiting), 1))
    running: dict[Future[list[Result | BinFailed]], int] = {}
    with ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="compact") as pool:
        while waiting or running:
            while waiting and len(running) < at_once:
                if is_over():
                    waiting.clear()
                    break
                share = BinBatch(staging=staging, bins=tuple(waiting.pop(0)), pace=pace().shared_by(at_once))
                running[pool.submit(_run_share, spark, share, kernel)] = len(share.bins)
            for finished in wait(running, return_when=FIRST_COMPLETED).done:
                results = finished.result()
                if len(results) < running.pop(finished) and is_over():
                    waiting.clear()
                yield from results


def _plan_batches(tasks: Sequence[BinTask], at_once: int) -> Iterator[list[BinTask]]:
    """Bins for each job, in even parts: one job for each core, or a few where one runs at a time, so that a pause falls
    between them; and as many as keep each below its limit."""
    total = sum(_weight(task) for task in tasks)
    parts = max(at_once if at_once > 1 else _ONE_BY_ONE, -(-total // _SHARED_BYTES))
    share: list[BinTask] = []
    part, before = 0, 0
    for task in tasks:
        middle = before + _weight(task) // 2
        before += _weight(task)
        if share and (middle * parts // (total + 1) > part or len(share) >= _SHARED_BINS):
            yield share
            share = []
        part = middle * parts // (total + 1)
        share.append(task)
    if share:
        yield share


def _weight(task: BinTask) -> int:
    size = sum(file.size_bytes for file in task.inputs)
    return size // _COPIED_WEIGHT if task.kernel == "splice" and not task.deletes else size


def _run_share(spark: SparkSession, share: BinBatch, kernel: Kernel[Result]) -> list[Result | BinFailed]:
    """Run one Spark job of one task."""
    run = partial(_run_on_executor, kernel=kernel)
    try:
        found: list[list[Result | BinFailed]] = spark.sparkContext.parallelize([share], 1).map(run).collect()
        return found[0]
    except Py4JError as problem:
        reason = SparkTaskFailed(f"Compaction failed: {render_reason(str(problem))}.")
        return [BinFailed(number=task.number, reason=reason) for task in share.bins]


def _run_on_executor(share: BinBatch, kernel: Kernel[Result]) -> list[Result | BinFailed]:
    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else 0
    with closing(connect(share.staging.dsn, autocommit=True, application_name="thermocline compact")) as conn:
        acquire_slot(conn, share.staging.slots)
        paced = keep_pace(share.pace)
        register = share.staging.registrar(conn)
        found: list[Result | BinFailed] = []
        for task in share.bins:
            if share.pace.is_over(time.time()):
                break
            found.append(_run_one(replace(task, name_prefix=f"{task.name_prefix}-{attempt}"), kernel, register, paced))
        return found


def _run_one(
    task: BinTask, kernel: Kernel[Result], register: Callable[[str], None], paced: Callable[[int, int], None]
) -> Result | BinFailed:
    try:
        return kernel(task, register, paced)
    except ThermoclineError as refusal:
        return BinFailed(number=task.number, reason=refusal)
    except Exception as problem:
        return BinFailed(
            number=task.number, reason=SparkTaskFailed(f"Bin {task.number} failed: {render_reason(str(problem))}.")
        )
