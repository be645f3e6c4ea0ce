"""Run bins of compaction on Spark: several at a time, each result given back as it comes.

A bin is a task; small bins share one, so that a thousand tiny partitions do not cost a thousand jobs. What a bin fails with is a value,
and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from thermocline.core.maintenance.pacing import UNPACED, Pace
from thermocline.errors import SparkTaskFailed, ThermoclineError
from thermocline.pg import Connection, connect
from thermocline.spark.jobs.tasks import render_reason
from thermocline.spark.kernels.compaction.pace import keep_pace
from thermocline.spark.kernels.compaction.run import run_bin
from thermocline.spark.kernels.compaction.task import BinResult, BinTask

_SHARED_BYTES = 64 << 20
_SHARED_BINS = 32
_STAGE = "insert into thermocline.staged_files (path, table_id, lake_id, op_id) values (%s, %s, %s, %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Under which table and pass files are registered before they are written."""

    dsn: str = field(repr=False)
    pass_id: str
    table_id: int | None = None
    lake_id: int | None = None

    def registrar(self, conn: Connection) -> Callable[[str], None]:
        def register(path: str) -> None:
            conn.execute(_STAGE, (path, self.table_id, self.lake_id, self.pass_id))

        return register


@dataclass(frozen=True, slots=True, kw_only=True)
class BinFailed:
    """A bin that could not be rewritten, and why."""

    number: int
    reason: ThermoclineError


def run_bins(
    spark: SparkSession,
    staging: Staging,
    tasks: Sequence[BinTask],
    *,
    parallel: int,
    is_over: Callable[[], bool] = lambda: False,
    pace: Callable[[], Pace] = lambda: UNPACED,
) -> Iterator[BinResult | BinFailed]:
    """Results in the order they come. `is_over` is asked before each job: true lets those under way finish and starts no more.

    `pace` is asked then too: what all jobs at once may take, of which each gets its part.
    """
    waiting = list(_shares(tasks))
    at_once = min(max(parallel, 1), len(waiting))
    running: set[Future[list[BinResult | BinFailed]]] = set()
    with ThreadPoolExecutor(max_workers=max(parallel, 1), thread_name_prefix="compact") as pool:
        while waiting or running:
            while waiting and len(running) < max(parallel, 1):
                if is_over():
                    waiting.clear()
                    break
                running.add(pool.submit(_run_share, spark, staging, waiting.pop(0), pace().shared_by(at_once)))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for finished in done:
                yield from finished.result()


def _shares(tasks: Sequence[BinTask]) -> Iterator[list[BinTask]]:
    share: list[BinTask] = []
    size = 0
    for task in tasks:
        weight = sum(file.size_bytes for file in task.inputs)
        if share and (size + weight > _SHARED_BYTES or len(share) >= _SHARED_BINS):
            yield share
            share, size = [], 0
        share.append(task)
        size += weight
    if share:
        yield share


def _run_share(spark: SparkSession, staging: Staging, share: Sequence[BinTask], pace: Pace) -> list[BinResult | BinFailed]:
    """One Spark task over a few bins."""

    def run(bins: Sequence[BinTask]) -> list[BinResult | BinFailed]:
        return _run_on_executor(staging, bins, pace)

    try:
        found: list[list[BinResult | BinFailed]] = spark.sparkContext.parallelize([share], 1).map(run).collect()
        return found[0]
    except Py4JError as problem:
        reason = SparkTaskFailed(f"Compaction failed: {render_reason(str(problem))}.")
        return [BinFailed(number=task.number, reason=reason) for task in share]


def _run_on_executor(staging: Staging, bins: Sequence[BinTask], pace: Pace) -> list[BinResult | BinFailed]:
    context = TaskContext.get()
    attempt = context.taskAttemptId() if context else 0
    with closing(connect(staging.dsn, autocommit=True, application_name="thermocline compact")) as conn:
        register, paced = staging.registrar(conn), keep_pace(pace)
        return [_run_one(replace(task, name_prefix=f"{task.name_prefix}-{attempt}"), register, paced) for task in bins]


def _run_one(task: BinTask, register: Callable[[str], None], paced: Callable[[int, int], None]) -> BinResult | BinFailed:
    try:
        return run_bin(task, register, paced)
    except ThermoclineError as refusal:
        return BinFailed(number=task.number, reason=refusal)
    except Exception as problem:
        return BinFailed(number=task.number, reason=SparkTaskFailed(f"Bin {task.number} failed: {render_reason(str(problem))}."))
