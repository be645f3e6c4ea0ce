"""Starts the processes of a stack in order, restarts those that end, and stops all of them in reverse order."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from thermocline.errors import StackNotReady, StackNotReadyInTime, ThermoclineError
from thermocline.stack.children import Child
from thermocline.stack.state import ProcessRecord, StackState, record_of, write_state

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
READY_TIMEOUT_SECONDS = 90.0
POLL_SECONDS = 0.1

Tell = Callable[[str], None]


@dataclass(slots=True)
class _Watch:
    """A child, and when it may be started again."""

    child: Child
    restarts: int = 0
    pause_seconds: float = FIRST_PAUSE_SECONDS
    started_at: float = 0.0
    restart_at: float | None = None


class Supervisor:
    """Owns the children of one stack. Single-threaded: children are bound to the life of the thread that started
    them."""

    def __init__(self, directory: Path, state: StackState, tell: Tell) -> None:
        self.directory = directory
        self.state = replace(state, supervisor=record_of("supervisor", os.getpid(), "running"))
        self._tell = tell
        self._watches: list[_Watch] = []
        self._stopping = False

    def start(self, child: Child) -> None:
        """Start a child and watch it from now on."""
        watch = _Watch(child=child)
        self._watches.append(watch)
        self._launch(watch)

    def wait_for_port(self, name: str, host: str, port: int) -> None:
        """Return when somebody listens; a child that keeps ending, or takes too long, is refused with its last
        words."""
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        watch = next(watch for watch in self._watches if watch.child.name == name)
        while not _listens(host, port):
            self.tend()
            if self._stopping:
                raise StackNotReady("The start was stopped.")
            if watch.restarts >= 3 or time.monotonic() > deadline:
                last = _last_words(watch.child.log_path)
                problem = StackNotReady if watch.restarts >= 3 else StackNotReadyInTime
                raise problem(
                    f"The {name} did not get ready on {host}:{port}: {last}", hint=f"Its log is {watch.child.log_path}."
                )
            time.sleep(POLL_SECONDS)

    def mark_up(self) -> None:
        self._remember(replace(self.state, phase="up"))

    def run(self) -> None:
        """Tend the children until a signal asks to stop."""
        while not self._stopping:
            self.tend()
            time.sleep(POLL_SECONDS)

    def tend(self) -> None:
        """One look at every child: notice who ended, start again whose pause is over."""
        now = time.monotonic()
        for watch in self._watches:
            if watch.restart_at is not None:
                if now >= watch.restart_at and not self._stopping:
                    self._restart(watch)
            elif (status := watch.child.exit_status()) is not None:
                self._plan_restart(watch, status, now)

    def stop(self) -> None:
        """Stop every child, the last started first, and remember that the stack is down."""
        for watch in reversed(self._watches):
            watch.child.stop()
            self._remember(self.state.with_process(ProcessRecord(name=watch.child.name, restarts=watch.restarts)))
        self._watches.clear()
        self._remember(replace(self.state, phase="down", supervisor=ProcessRecord(name="supervisor")))

    @contextmanager
    def signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM ask the supervisor to stop; a second one does not hurry it."""

        def ask(_number: int, _frame: FrameType | None) -> None:
            self._stopping = True

        former = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def _launch(self, watch: _Watch) -> None:
        pid = watch.child.start()
        watch.started_at = time.monotonic()
        watch.restart_at = None
        self._remember(self.state.with_process(record_of(watch.child.name, pid, "running", watch.restarts)))

    def _plan_restart(self, watch: _Watch, status: int, now: float) -> None:
        lived_seconds = now - watch.started_at
        if lived_seconds >= STEADY_SECONDS:
            watch.pause_seconds = FIRST_PAUSE_SECONDS
        watch.restart_at = now + watch.pause_seconds
        self._tell(
            f"{watch.child.name} ended ({_render_status(status)}) after {lived_seconds:.0f} s; it is started again in "
            f"{watch.pause_seconds:g} s, and its log is {watch.child.log_path}"
        )
        watch.pause_seconds = min(watch.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        self._remember(
            self.state.with_process(
                ProcessRecord(name=watch.child.name, state="waiting to restart", restarts=watch.restarts)
            )
        )

    def _restart(self, watch: _Watch) -> None:
        watch.restarts += 1
        try:
            self._launch(watch)
        except ThermoclineError as problem:
            watch.restart_at = time.monotonic() + watch.pause_seconds
            watch.pause_seconds = min(watch.pause_seconds * 2, LONGEST_PAUSE_SECONDS)
            self._tell(f"{watch.child.name} could not be started again: {problem}")
        else:
            self._tell(f"{watch.child.name} was started again (restart {watch.restarts})")

    def _remember(self, state: StackState) -> None:
        self.state = state
        write_state(self.directory, state)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _last_words(log_path: Path) -> str:
    lines = (
        [line.strip() for line in log_path.read_text(errors="replace").splitlines() if line.strip()]
        if log_path.exists()
        else []
    )
    errors = [line for line in lines[-50:] if line.startswith("error ")]
    return (errors or lines or ["it said nothing"])[-1]


def _render_status(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"signal {-status}"
