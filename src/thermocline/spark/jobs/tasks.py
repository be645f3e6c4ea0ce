"""Run one kernel over many tasks on Spark and collect the results of their successful attempts.

A retried or speculative attempt writes under its own file names, and only the attempt whose result arrives counts. The
files of every other attempt stay registered as staged and are removed with the op. A refusal returns as a value,
because a retry would not help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import SparkSession

from thermocline.errors import RefusedError, SparkTaskFailed, ThermoclineError
from thermocline.spark.jobs.completions import watch_completions

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Task],
    kernel: Callable[[Task, int], Result],
    what: str,
    on_completed: Callable[[int], None] | None = None,
) -> list[Result]:
    """The kernel's result for each task, unordered. `what` begins the sentence of a failure; `on_completed` hears now
    and then how many tasks are done."""
    context = spark.sparkContext
    try:
        run = partial(_run, kernel=kernel, attempts=read_max_attempts(spark), what=what)
        with watch_completions(context, on_completed):
            outcomes: list[Result | ThermoclineError] = context.parallelize(tasks, len(tasks)).map(run).collect()
    except Py4JError as problem:
        raise SparkTaskFailed(f"{what} failed: {render_reason(_java_text(problem))}.") from None
    return [_raise_or_return(outcome) for outcome in outcomes]


def read_max_attempts(spark: SparkSession) -> int:
    """How often Spark runs a task before it gives up; a local master has its own rule."""
    context = spark.sparkContext
    if found := re.fullmatch(r"local(?:\[[^,\]]+(?:,\s*(\d+))?\])?", str(context.master)):
        return int(found[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def _run(task: Task, kernel: Callable[[Task, int], Result], attempts: int, what: str) -> Result | ThermoclineError:
    """Run one attempt. Refusals, and the failure of the last attempt, return as values: a sentence instead of a stack
    trace in the logs."""
    context = TaskContext.get()
    attempt, unique = (context.attemptNumber(), context.taskAttemptId()) if context else (0, 0)
    try:
        return kernel(task, unique)
    except RefusedError as refusal:
        return refusal
    except Exception as problem:
        if attempt + 1 < attempts:
            raise
        if isinstance(problem, ThermoclineError):
            return problem
        return SparkTaskFailed(f"{what} failed: {render_reason(str(problem))}.")


def _raise_or_return(outcome: Result | ThermoclineError) -> Result:
    if isinstance(outcome, ThermoclineError):
        raise outcome
    return outcome


def render_reason(text: str) -> str:
    """The sentence in a long message: Postgres' own when there is one, and never a connection string."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next(
        (line for line in lines if "ERROR:" in line or "FATAL:" in line), lines[0] if lines else "no reason given"
    )
    sentence = re.sub(r"^.*?\b(?:ERROR|FATAL):\s*", "", line)
    return re.sub(r"password=\S+|//[^@\s/]+@", "…", sentence).rstrip(".")


def _java_text(problem: Py4JError) -> str:
    return str(problem.java_exception.getMessage()) if isinstance(problem, Py4JJavaError) else str(problem)
