"""How much memory the executors may use, and who may use it now.

DuckDB limits the memory of a database, and each executor has one of its own. Statements that must hold rows before the
first one leaves (sorts, and scans under many row deletes) run in a second database of their executor, under their
connection's limit; so many connections may hold rows at once as fit into the gateway's whole limit, and others wait for
their turn. Whole queries share the whole limit: each gets half of what is free.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from thermocline.errors import GatewayBusy
from thermocline.gateway.executor.outcomes import Cancelled

_TURN_SECONDS = 0.2
_SMALLEST_SHARE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """What all scans share, what one connection may hold of it, and what each may put on disk beyond that."""

    whole_bytes: int = 2_000_000_000
    connection_bytes: int = 500_000_000
    spill_bytes: int = 10_000_000_000
    wait_seconds: float = 60

    @property
    def at_once(self) -> int:
        return max(1, self.whole_bytes // self.connection_bytes)

    @property
    def stream_bytes(self) -> int:
        """What statements that hold a batch or two may use."""
        return min(self.whole_bytes, max(self.connection_bytes, self.whole_bytes // 4))


class MemoryShares:
    """The memory that running statements were given."""

    def __init__(self, limits: MemoryLimits) -> None:
        self.limits = limits
        self._places = threading.BoundedSemaphore(limits.at_once)
        self._lock = threading.Lock()
        self._free_bytes = limits.whole_bytes

    def take_place(self, is_stopped: Callable[[], bool]) -> None:
        """Wait until one more connection may hold rows."""
        deadline = time.monotonic() + self.limits.wait_seconds
        while not self._places.acquire(timeout=_TURN_SECONDS):
            if is_stopped():
                raise Cancelled
            if time.monotonic() >= deadline:
                raise GatewayBusy("Other connections hold all the memory that the gateway has for sorting.")

    def leave_place(self) -> None:
        self._places.release()

    @contextmanager
    def share(self) -> Iterator[int]:
        """Bytes for one more whole query: half of what is free, and at least a sixteenth of the whole."""
        with self._lock:
            given = max(self._free_bytes // 2, self.limits.whole_bytes // _SMALLEST_SHARE)
            self._free_bytes -= given
        try:
            yield given
        finally:
            with self._lock:
                self._free_bytes += given


class HeldRows:
    """What one connection holds: all its open results that hold rows count once."""

    def __init__(self, shares: MemoryShares) -> None:
        self._shares = shares
        self._lock = threading.Lock()
        self._users = 0

    def take(self, is_stopped: Callable[[], bool]) -> None:
        with self._lock:
            if not self._users:
                self._shares.take_place(is_stopped)
            self._users += 1

    def give_back(self) -> None:
        with self._lock:
            if not self._users:
                return  # the session has ended before
            self._users -= 1
            if not self._users:
                self._shares.leave_place()

    def close(self) -> None:
        """The session ends: nothing of it holds rows any more."""
        with self._lock:
            users, self._users = self._users, 0
            if users:
                self._shares.leave_place()
