"""A look that may hang, in a thread of its own, with a time limit.

A thread that hangs in a system call or in an object store's client cannot be ended. So it is a daemon, and while it
hangs no other one is started in its place: whoever asks is told since when it does not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedLook(Generic[T]):
    """One look at a time; `start` is ignored while the last one still runs."""

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._thread: threading.Thread | None = None
        self._started_at = 0.0
        self._result: T | None = None
        self._problem: BaseException | None = None

    def start(self, look: Callable[[], T] | None = None) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._look, self._result, self._problem = look or self._look, None, None
        self._started_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="health look", daemon=True)
        self._thread.start()

    def finish(self, deadline: float) -> T | None:
        """What it saw; None when it has not ended by then (`time.monotonic()`). What it raised is raised here."""
        if self._thread is None:
            return None
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            return None
        if self._problem is not None:
            raise self._problem
        return self._result

    @property
    def silent_seconds(self) -> float:
        """For how long it has not answered."""
        return time.monotonic() - self._started_at

    def _run(self) -> None:
        try:
            self._result = self._look()
        except BaseException as problem:
            self._problem = problem
