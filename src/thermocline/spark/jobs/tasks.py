"""Run one kernel over many tasks on Spark and gather what their counted attempts gave.

A retried or speculative attempt writes under names of its own, and only the attempt whose result comes back is counted:
the files of every other one stay registered as staged and are cleaned up with the op. A refusal is carried back as a
value, because trying again would not help it.
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

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    spark: SparkSession, tasks: Sequence[Task], kernel: Callable[[Task, int], Result], what: str
) -> list[Result]:
    """The kernel's result for each task, in no order; `what` begins the sentence of a failure."""
    try:
        run = partial(_run, kernel=kernel, attempts=read_max_attempts(spark), what=what)
        outcomes: list[Result | ThermoclineError] = spark.sparkContext.parallelize(tasks, len(tasks)).map(run).collect()
    except Py4JError as problem:
        raise SparkTaskFailed(f"{what} failed: {render_reason(_java_text(problem))}.") from None
    return [_raise_or_return(outcome) for outcome in outcomes]


def read_max_attempts(spark: SparkSession) -> int:
    """How often Spark runs a task before it gives up; a local master has a rule of its own."""
    context = spark.sparkContext
    if found := re.fullmatch(r"local(?:\[[^,\]]+(?:,\s*(\d+))?\])?", str(context.master)):
        return int(found[1] or 1)
    return int(context.getConf().get("spark.task.maxFailures", "4") or 4)


def _run(task: Task, kernel: Callable[[Task, int], Result], attempts: int, what: str) -> Result | ThermoclineError:
    """One attempt. Refusals, and the failure of the last attempt, come back as values: a sentence instead of a stack in
    the logs."""
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
    """The sentence in a long message: Postgres' own when there is one, and never what a connection string might
    hold."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = next(
        (line for line in lines if "ERROR:" in line or "FATAL:" in line), lines[0] if lines else "no reason given"
    )
    sentence = re.sub(r"^.*?\b(?:ERROR|FATAL):\s*", "", said)
    return re.sub(r"password=\S+|//[^@\s/]+@", "…", sentence).rstrip(".")


def _java_text(problem: Py4JError) -> str:
    return str(problem.java_exception.getMessage()) if isinstance(problem, Py4JJavaError) else str(problem)
