"""How many tasks of a Spark job are done, while it runs."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark import SparkContext

_LOG = logging.getLogger("thermocline.spark")
_EVERY_SECONDS = 0.5


@contextmanager
def watch_completions(context: SparkContext, on_completed: Callable[[int], None] | None) -> Iterator[None]:
    """Tell from a thread of its own how many tasks of the jobs in the block are done. A watch that fails is over; the
    jobs go on."""
    if on_completed is None:
        yield
        return
    group, over = f"thermocline-{uuid.uuid4()}", threading.Event()
    context.setJobGroup(group, "thermocline")
    watcher = threading.Thread(target=_watch, args=(context, group, over, on_completed), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]


def _watch(context: SparkContext, group: str, over: threading.Event, on_completed: Callable[[int], None]) -> None:
    try:
        while not over.wait(_EVERY_SECONDS):
            on_completed(_count_completed(context, group))
    except Exception:
        _LOG.debug("the progress of a job cannot be told", exc_info=True)


def _count_completed(context: SparkContext, group: str) -> int:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)
