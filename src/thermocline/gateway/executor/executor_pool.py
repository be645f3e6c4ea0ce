"""The executors of a gateway. A session has one of its own while it has a result that is not read to its end.

So a crash ends the statements of one session. The number of executors is bounded; a session that needs one waits for it
in line while it holds none, so sessions never wait for each other in a circle. One executor is kept ready: no statement
waits for a process to start unless many start at once.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

from thermocline.errors import GatewayBusy
from thermocline.gateway import metrics
from thermocline.gateway.executor.executors import Executor
from thermocline.gateway.executor.jobs import ExecutorConfig
from thermocline.gateway.executor.memory_limits import HeldRows, MemoryShares
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.executor.spill_directory import SpillDirectory

log = logging.getLogger(__name__)

_TURN_SECONDS = 0.5
_IDLE_SECONDS = 60.0
_RECYCLED_STATEMENTS = 10_000
_RECYCLED_BYTES = 400_000_000
_CHECK_SECONDS = 5.0


class _Waiter:
    """A session in line."""

    def __init__(self) -> None:
        self.is_served = threading.Event()
        self.executor: Executor | None = None


class ExecutorPool:
    """Executors that are idle, and the line of those who wait for one."""

    def __init__(self, config: ExecutorConfig, *, most: int, at_once: int) -> None:
        self.turns = threading.BoundedSemaphore(at_once)
        self.shares = MemoryShares(config.memory)
        self._spill = SpillDirectory()
        self._config = config
        self._most = most
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._idle: list[tuple[Executor, float]] = []
        self._waiting: deque[_Waiter] = deque()
        self._count = 0
        self._all: set[Executor] = set()
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="gateway-executors", daemon=True)

    def start(self) -> None:
        """Start the first executor; returns when it is ready."""
        self._put(self._start_one())
        self._keeper.start()

    def close(self) -> None:
        """End all executors."""
        self._closed.set()
        self._wake.set()
        if self._keeper.is_alive():
            self._keeper.join()
        with self._lock:
            self._idle.clear()
            executors = list(self._all)
        for executor in executors:
            self._end(executor)
        self._spill.close()

    def take(self, is_stopped: Callable[[], bool]) -> Executor:
        """An idle executor, a new one, or the next one that is given back."""
        while True:
            if self._closed.is_set() or is_stopped():
                raise Cancelled
            with self._lock:
                waiter = None
                if self._idle:
                    executor, _ = self._idle.pop()
                elif self._count < self._most:
                    self._count += 1
                    executor = None
                else:
                    waiter = _Waiter()
                    self._waiting.append(waiter)
            if waiter is not None:
                executor = self._wait(waiter, is_stopped)
            self._wake.set()
            if waiter is None and executor is None:
                return self._start_counted()
            if executor is not None and executor.is_alive():
                return executor
            if executor is not None:
                self.discard(executor)

    def _wait(self, waiter: _Waiter, is_stopped: Callable[[], bool]) -> Executor | None:
        deadline = time.monotonic() + self._config.memory.wait_seconds
        while not waiter.is_served.wait(_TURN_SECONDS):
            is_late = time.monotonic() >= deadline
            if not (is_stopped() or is_late or self._closed.is_set()):
                continue
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                    if is_late and not is_stopped():
                        raise GatewayBusy(
                            f"All {self._most} executors of the gateway hold results that were not read to their end.",
                            hint="Close cursors that are not read to their end, or raise gateway_executors.",
                        )
                    raise Cancelled
        return waiter.executor

    def give_back(self, executor: Executor) -> None:
        """The executor runs nothing any more: the next in line gets it."""
        grown_bytes = executor.resident_bytes - executor.start_bytes
        if self._closed.is_set() or executor.statements >= _RECYCLED_STATEMENTS or grown_bytes > _RECYCLED_BYTES:
            self._remove(executor)
        else:
            self._put(executor)

    def discard(self, executor: Executor) -> str:
        """The executor is dead, or killed: count it, and say how it ended."""
        how = self._remove(executor)
        if executor.was_killed:
            log.warning("executor %d did not react to an interrupt and was killed", executor.pid)
        elif not self._closed.is_set():
            metrics.EXECUTOR_CRASHES.inc()
            log.error("executor %d %s", executor.pid, how)
        return how

    def _put(self, executor: Executor) -> None:
        with self._lock:
            if self._waiting:
                waiter = self._waiting.popleft()
                waiter.executor = executor
                waiter.is_served.set()
            else:
                self._idle.append((executor, time.monotonic()))

    def _remove(self, executor: Executor) -> str:
        how = self._end(executor)
        self._free_slot()
        self._wake.set()
        return how

    def _free_slot(self) -> None:
        """One executor less: whoever waits may start one in its place."""
        with self._lock:
            self._count -= 1
            waiter = self._waiting.popleft() if self._waiting else None
        if waiter is not None:
            waiter.is_served.set()

    def _end(self, executor: Executor) -> str:
        with self._lock:
            if executor not in self._all:
                return "was ended"
            self._all.remove(executor)
        metrics.EXECUTORS.dec()
        return executor.end()

    def _start_counted(self) -> Executor:
        try:
            return self._start_one(counted=True)
        except BaseException:
            self._free_slot()
            raise

    def _start_one(self, *, counted: bool = False) -> Executor:
        spill = Path(self._spill.path) / f"executor-{next(self._numbers)}"
        spill.mkdir()
        try:
            executor = Executor(replace(self._config, spill_path=str(spill)))
        except BaseException:
            shutil.rmtree(spill, ignore_errors=True)
            raise
        metrics.EXECUTORS.inc()
        with self._lock:
            self._all.add(executor)
            self._count += not counted
        return executor

    def _keep(self) -> None:
        """Keep one executor ready, and end those that were idle for long or died."""
        while not self._closed.is_set():
            self._wake.wait(_CHECK_SECONDS)
            self._wake.clear()
            if self._closed.is_set():
                return
            try:
                self._end_idle()
                self._start_spare()
            except Exception as problem:
                log.exception("no executor could be started: %s", problem)
                self._closed.wait(_CHECK_SECONDS)

    def _start_spare(self) -> None:
        with self._lock:
            if self._idle or self._count >= self._most:
                return
            self._count += 1
        self._put(self._start_counted())

    def _end_idle(self) -> None:
        with self._lock:
            now = time.monotonic()
            old = [entry for entry in self._idle[:-1] if now - entry[1] > _IDLE_SECONDS]
            dead = [entry for entry in self._idle if not entry[0].is_alive()]
            self._idle = [entry for entry in self._idle if entry not in old and entry not in dead]
        for entry in dead:
            self.discard(entry[0])
        for entry in old:
            if entry not in dead:
                self._remove(entry[0])


class Lease:
    """An executor while one session has open results on it."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.users = 0
        self.ending: str | None = None


class SessionExecutor:
    """The executor of one session: taken for its first open result, given back with the last."""

    def __init__(self, pool: ExecutorPool) -> None:
        self.pool = pool
        self.held_rows = HeldRows(pool.shares)
        self._lock = threading.Lock()
        self._lease: Lease | None = None

    def take(self, is_stopped: Callable[[], bool]) -> Lease:
        """One more open result."""
        with self._lock:
            if self._lease is None:
                self._lease = Lease(self.pool.take(is_stopped))
            self._lease.users += 1
            return self._lease

    def give_back(self, lease: Lease) -> None:
        with self._lock:
            lease.users -= 1
            if lease.users or lease.ending is not None:
                return
            self._lease = None
        self.pool.give_back(lease.executor)

    def lose(self, lease: Lease) -> str:
        """The executor is gone: say how it ended. Further results of the session get another one."""
        with self._lock:
            if lease.ending is None:
                if self._lease is lease:
                    self._lease = None
                lease.ending = self.pool.discard(lease.executor)
            return lease.ending

    def close(self) -> None:
        """The session ends. An executor that it still has is killed, as nobody will ever give it back."""
        with self._lock:
            lease, self._lease = self._lease, None
            if lease is not None and lease.ending is None:
                log.error("a session ended with %d open results on executor %d", lease.users, lease.executor.pid)
                lease.executor.kill()
                lease.ending = self.pool.discard(lease.executor)
        self.held_rows.close()
