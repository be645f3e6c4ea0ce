"""Starts the processes of a stack in order, restarts those that end, and stops all of them in reverse order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from thermocline.errors import RefusedError, StackNotReady, StackNotReadyInTime, ThermoclineError, UsageError
from thermocline.runtime.progress import ProgressReporter
from thermocline.stack.child_errors import read_child_error
from thermocline.stack.children import Child
from thermocline.stack.state import ProcessRecord, StackState, record_of, write_state

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
READY_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.1
_FINAL_EXITS = (UsageError.exit_code, RefusedError.exit_code)
"""A child that was refused would be refused again."""


@dataclass(slots=True)
class _WatchedChild:
    """A child, and when it may be started again."""

    child: Child
    pid: int | None = None
    restarts: int = 0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    started_at: float = 0.0
    log_start: int = 0
    ended_with: int | None = None
    restart_at: float | None = None


class Supervisor:
    """Owns the children of one stack. Single-threaded: children are bound to the life of the thread that started
    them."""

    def __init__(self, directory: Path, state: StackState, report_progress: ProgressReporter) -> None:
        self.directory = directory
        self.state = replace(state, supervisor=record_of("supervisor", os.getpid(), "running"))
        self._report_progress = report_progress
        self._watches: list[_WatchedChild] = []
        self._stopping = False
        self.was_up = False

    def record_start(self) -> None:
        """Record the stack before its first process starts."""
        self._record_state(self.state)

    def start(self, child: Child) -> None:
        """Start a child and watch it from now on."""
        watch = _WatchedChild(child=child)
        self._watches.append(watch)
        self._launch(watch)

    def wait_until_ready(self, name: str, why_not: Callable[[int], str | None]) -> None:
        """Return once `why_not` has no reason any more for the child's pid.

        A child that refuses to start, keeps ending or takes too long is told with its own error, code and hint.
        """
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        watch = next(watch for watch in self._watches if watch.child.name == name)
        while (reason := "It ended." if watch.pid is None else why_not(watch.pid)) is not None:
            self.check_children()
            if self._stopping:
                raise StackNotReady("The start was stopped.")
            if watch.ended_with in _FINAL_EXITS or watch.restarts >= 3:
                raise read_child_error(name, watch.child.log_path, start=watch.log_start)
            if time.monotonic() > deadline:
                raise StackNotReadyInTime(
                    f"{name} was not ready within {READY_TIMEOUT_SECONDS:.0f} seconds: {reason}",
                    hint=f"Its log is {watch.child.log_path}.",
                )
            time.sleep(POLL_SECONDS)

    def note_warehouse(self, warehouse: str) -> None:
        """Record where the database has its lakes made."""
        self._record_state(replace(self.state, warehouse=warehouse))

    def mark_up(self) -> None:
        self.was_up = True
        self._record_state(replace(self.state, phase="up"))

    def run(self) -> None:
        """Restart children that end, until a signal requests a stop."""
        while not self._stopping:
            self.check_children()
            time.sleep(POLL_SECONDS)

    def check_children(self) -> None:
        """Check every child once: plan the restart of one that ended, restart one whose pause is over."""
        now = time.monotonic()
        for watch in self._watches:
            if watch.restart_at is not None:
                if now >= watch.restart_at and not self._stopping:
                    self._restart(watch)
            elif (status := watch.child.exit_status()) is not None:
                self._plan_restart(watch, status, now)

    def stop(self) -> None:
        """Stop every child, the last started first, and record that the stack is down."""
        self._record_state(replace(self.state, phase="down"))
        for watch in reversed(self._watches):
            watch.child.stop()
            self._record_state(self.state.with_process(ProcessRecord(name=watch.child.name, restarts=watch.restarts)))
        self._watches.clear()
        self._record_state(replace(self.state, phase="down", supervisor=ProcessRecord(name="supervisor")))

    @contextmanager
    def signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP request a stop; a second signal does not shorten it."""

        def request_stop(_number: int, _frame: FrameType | None) -> None:
            self._stopping = True

        former = {
            number: signal.signal(number, request_stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def _launch(self, watch: _WatchedChild) -> None:
        log_path = watch.child.log_path
        watch.log_start = log_path.stat().st_size if log_path.exists() else 0
        watch.pid = pid = watch.child.start()
        watch.ended_with = None
        watch.started_at = time.monotonic()
        watch.restart_at = None
        self._record_state(self.state.with_process(record_of(watch.child.name, pid, "running", watch.restarts)))

    def _plan_restart(self, watch: _WatchedChild, status: int, now: float) -> None:
        lived_seconds = now - watch.started_at
        watch.pid, watch.ended_with = None, status
        if lived_seconds >= STEADY_SECONDS:
            watch.pause_seconds = FIRST_PAUSE_SECONDS
        watch.restart_at = now + watch.pause_seconds
        self._report_progress(
            f"{watch.child.name} ended ({_render_status(status)}) after {lived_seconds:.0f} s; it is started again in "
            f"{watch.pause_seconds:g} s, and its log is {watch.child.log_path}"
        )
        watch.pause_seconds = min(watch.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        self._record_state(
            self.state.with_process(
                ProcessRecord(name=watch.child.name, state="waiting to restart", restarts=watch.restarts)
            )
        )

    def _restart(self, watch: _WatchedChild) -> None:
        watch.restarts += 1
        try:
            self._launch(watch)
        except ThermoclineError as problem:
            watch.restart_at = time.monotonic() + watch.pause_seconds
            watch.pause_seconds = min(watch.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            self._report_progress(f"{watch.child.name} could not be started again: {problem}")
        else:
            self._report_progress(f"{watch.child.name} was started again (restart {watch.restarts})")

    def _record_state(self, state: StackState) -> None:
        self.state = state
        write_state(self.directory, state)


def _render_status(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {-status}"
