"""Wait for a worker to execute a request: report its progress, return its result or raise its failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from thermocline.catalog.requests import RequestState
from thermocline.errors import WaitInterrupted, WorkerFailed
from thermocline.runtime.progress import ProgressReporter

_POLL_SECONDS = 0.2


def wait_for_result(
    read: Callable[[], RequestState | None],
    report_progress: ProgressReporter,
    timeout_seconds: float,
    *,
    table: str,
    worker: str | None,
    when_gone: str,
) -> dict[str, Any] | None:
    """The result as data, or None when the time is over; the worker's failure is raised here as it was there. Ctrl-C
    ends the wait, not the work."""
    try:
        report_progress(f"asking worker {worker}")
        return _poll(read, report_progress, timeout_seconds, when_gone=when_gone)
    except KeyboardInterrupt:
        raise WaitInterrupted(
            f"The wait was ended by Ctrl-C; the worker goes on with {table} by itself.",
            hint=(
                f"`thermocline pause {table}` stops it after the step it is in; `thermocline show {table}` tells how "
                "it ends."
            ),
        ) from None


def _poll(
    read: Callable[[], RequestState | None],
    report_progress: ProgressReporter,
    timeout_seconds: float,
    *,
    when_gone: str,
) -> dict[str, Any] | None:
    deadline = time.monotonic() + timeout_seconds
    last = None
    while time.monotonic() < deadline:
        seen = read()
        if seen is None:
            raise WorkerFailed(when_gone)
        told = seen.measured or seen.progress
        if told and told != last:
            last = told
            report_progress(told)
        if seen.state == "done" and seen.result is not None:
            return seen.result
        if seen.state == "failed" and seen.result is not None:
            failure = WorkerFailed(str(seen.result.get("message")), hint=str(seen.result.get("hint", "")))
            failure.code = str(seen.result.get("code", failure.code))
            failure.exit_code = int(seen.result.get("exit_code", 1))
            raise failure
        time.sleep(_POLL_SECONDS)
    return None
