"""Waiting for a worker to perform a request: its progress told as it comes, its result or its failure handed on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from thermocline.catalog.requests import RequestState
from thermocline.errors import WorkerFailed
from thermocline.runtime.progress import ProgressReporter

_POLL_SECONDS = 0.2


def wait_for_result(
    read: Callable[[], RequestState | None],
    report_progress: ProgressReporter,
    timeout_seconds: float,
    *,
    when_gone: str,
) -> dict[str, Any] | None:
    """The result as data, or None when the time is over; the worker's failure is raised here as it was there."""
    deadline = time.monotonic() + timeout_seconds
    last = None
    while time.monotonic() < deadline:
        seen = read()
        if seen is None:
            raise WorkerFailed(when_gone)
        if seen.progress and seen.progress != last:
            last = seen.progress
            report_progress(last)
        if seen.state == "done" and seen.result is not None:
            return seen.result
        if seen.state == "failed" and seen.result is not None:
            failure = WorkerFailed(str(seen.result.get("message")), hint=str(seen.result.get("hint", "")))
            failure.code = str(seen.result.get("code", failure.code))
            failure.exit_code = int(seen.result.get("exit_code", 1))
            raise failure
        time.sleep(_POLL_SECONDS)
    return None
