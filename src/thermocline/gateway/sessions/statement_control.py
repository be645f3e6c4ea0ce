"""Runs the blocking work of a session in threads, with cancel requests, disconnects and statement timeouts.

The event loop waits for the work and for an interrupt at once. The interrupt is repeated until the work ends, so one
that comes before the work can be interrupted is not lost. Cleanup is never interrupted. A session that ends waits for
both: work that goes on in its thread would take connections and executors that nobody returns.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar, cast

from thermocline.errors import ExecutorCrashed
from thermocline.gateway import metrics
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.sessions.error_responses import SessionError

log = logging.getLogger(__name__)

T = TypeVar("T")
RunBlocking = Callable[[Callable[[], object]], Awaitable[object]]

_REPEAT_SECONDS = 0.2
_SHOWN_CHARACTERS = 300
_CONSTANT = re.compile(r"'(?:[^']|'')*'|\b\d[\d.]*\b")


class Interruptible(Protocol):
    """Work in a thread that can be interrupted."""

    def interrupt(self) -> None: ...


class StatementControl:
    """Runs, times and interrupts the statements of one session."""

    def __init__(self, run_blocking: RunBlocking, *, timeout_seconds: float, slow_seconds: float) -> None:
        self._run_blocking = run_blocking
        self._timeout_seconds = timeout_seconds
        self._slow_seconds = slow_seconds
        self._stop: asyncio.Future[None] | None = None
        self._deadline: float | None = None

    def cancel(self) -> None:
        """Cancel the running statement, if any."""
        if self._stop is not None and not self._stop.done():
            self._stop.set_result(None)

    @contextmanager
    def statement(self, text: str, *, counted: bool = True) -> Iterator[None]:
        """Run one statement in this context; it is counted and timed."""
        begun = time.monotonic()
        self._stop = asyncio.get_running_loop().create_future()
        self._deadline = begun + self._timeout_seconds if self._timeout_seconds else None
        outcome = "failed"
        try:
            yield
            outcome = "answered"
        except Cancelled:
            outcome = "cancelled"
            raise
        except ExecutorCrashed as crash:
            outcome = "crashed"
            log.error("statement %s failed: %s", fingerprint(text), crash)
            raise
        finally:
            self._stop = self._deadline = None
            seconds = time.monotonic() - begun
            if counted:
                metrics.QUERIES.labels(outcome).inc()
                metrics.QUERY_SECONDS.observe(seconds)
                metrics.LATENCY.observe(seconds)
            if self._slow_seconds and seconds >= self._slow_seconds:
                log.warning("slow statement, %s after %.3f s: %s", outcome, seconds, text[:_SHOWN_CHARACTERS])

    def check_interrupts(self) -> None:
        """Raise when the statement was cancelled or timed out."""
        if self._stop is not None and self._stop.done():
            raise Cancelled
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise _timed_out()

    async def run_blocking(self, work: Callable[[], T], running: Interruptible | None = None) -> T:
        """Run the work in a thread. On an interrupt, call `running.interrupt` and wait for the work to end."""
        self.check_interrupts()
        task = asyncio.ensure_future(self._run_blocking(work))
        waiting: set[asyncio.Future[object]] = {task}
        if self._stop is not None:
            waiting.add(cast("asyncio.Future[object]", self._stop))
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        try:
            await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return cast(T, task.result())
            while not task.done():
                if running is not None:
                    running.interrupt()
                await asyncio.wait({task}, timeout=_REPEAT_SECONDS)
        except asyncio.CancelledError:
            await _wait_to_the_end(task, running)
            raise
        task.exception()
        if self._stop is not None and self._stop.done():
            raise Cancelled
        raise _timed_out()

    async def run_cleanup(self, work: Callable[[], None]) -> None:
        """Run cleanup, which neither a cancel nor the timeout interrupts."""
        task = asyncio.ensure_future(self._run_blocking(work))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await _wait_to_the_end(task)
            raise


async def _wait_to_the_end(task: asyncio.Future[object], running: Interruptible | None = None) -> None:
    """The session was told to end: interrupt its work, and wait however often it is told again."""
    while not task.done():
        if running is not None:
            running.interrupt()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=_REPEAT_SECONDS)
    if not task.cancelled():
        task.exception()


def fingerprint(text: str) -> str:
    """Twelve hex digits that statements have in common if they differ in constants and spaces only."""
    return hashlib.sha256(_CONSTANT.sub("?", " ".join(text.split())).encode()).hexdigest()[:12]


def _timed_out() -> SessionError:
    return SessionError("57014", "canceling statement due to statement timeout")
