"""Retries by tenacity: which error is tried again, until when, and how long to wait in between.

    for attempt in retry_on(LostRace, attempts=5, wait=back_off):
        with attempt:
            return commit()

The error of the last attempt is raised as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.05, 5.0


def back_off(attempt: int) -> float:
    """50 ms, doubling to 5 s, with jitter: the wait after attempt number `attempt`, counted from 0."""
    return min(_FIRST_WAIT_SECONDS * (1 << min(attempt, 10)), _LONGEST_WAIT_SECONDS) * random.uniform(0.75, 1.25)


def retry_on(
    *errors: type[BaseException],
    attempts: int | None = None,
    seconds: float | None = None,
    wait: Callable[[int], float] = lambda _attempt: 0.0,
    before_wait: Callable[[int], None] = lambda _attempt: None,
) -> Retrying:
    """Run again on these errors, for a number of attempts or of seconds; attempts are counted from 0."""

    def wait_after(state: RetryCallState) -> float:
        return wait(state.attempt_number - 1)

    def note(state: RetryCallState) -> None:
        before_wait(state.attempt_number - 1)

    return Retrying(
        retry=retry_if_exception_type(errors),
        stop=stop_after_attempt(attempts) if attempts is not None else stop_after_delay(seconds or 0.0),
        wait=wait_after,
        before_sleep=note,
        reraise=True,
    )
