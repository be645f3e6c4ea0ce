"""Memory of statements that must hold rows before the first one leaves: sorts, and scans under many row deletes.

DuckDB limits the memory of a database, not of a statement. So what may hold much runs in a database of its connection's
own, with that connection's limit, opened when it is first needed and closed with the last answer read from it. Streams
that hold a batch or two run in the shared database. So many connections may hold at once as fit into the gateway's
whole limit; others wait for their turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import duckdb

from thermocline.errors import GatewayBusy
from thermocline.gateway.lake_arm.row_sources import Cancelled
from thermocline.gateway.lake_arm.spill_directory import SpillDirectory

_TURN_SECONDS = 0.2


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


class DatabaseFactory:
    """Opens DuckDB databases under the limits; their spill files lie in one directory, removed at the end."""

    def __init__(self, limits: MemoryLimits, *, threads: int) -> None:
        self.limits = limits
        self._threads = threads
        self._spill = SpillDirectory()
        self._places = threading.BoundedSemaphore(limits.at_once)

    def open(self, memory_bytes: int) -> duckdb.DuckDBPyConnection:
        """A database of its own."""
        database = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "threads": str(self._threads),
                "memory_limit": f"{memory_bytes // 1_000_000}MB",
                "preserve_insertion_order": "false",
                "temp_directory": str(self._spill.path) if self.limits.spill_bytes else "",
                "max_temp_directory_size": f"{self.limits.spill_bytes // 1_000_000}MB",
            },
        )
        database.execute("SET GLOBAL TimeZone = 'UTC'")
        database.execute("SET GLOBAL parquet_metadata_cache = true")
        return database

    def take_place(self, is_stopped: Callable[[], bool]) -> None:
        """Waits until one more connection may hold rows."""
        deadline = time.monotonic() + self.limits.wait_seconds
        while not self._places.acquire(timeout=_TURN_SECONDS):
            if is_stopped():
                raise Cancelled
            if time.monotonic() >= deadline:
                raise GatewayBusy("Other connections hold all the memory that the gateway has for sorting.")

    def leave_place(self) -> None:
        self._places.release()

    def close(self) -> None:
        self._spill.close()


class ConnectionMemory:
    """What one connection holds: a database that all its open answers share, and so its limit too."""

    def __init__(self, databases: DatabaseFactory, prepare: Callable[[duckdb.DuckDBPyConnection], None]) -> None:
        self._databases = databases
        self._prepare = prepare
        self._lock = threading.Lock()
        self._database: duckdb.DuckDBPyConnection | None = None
        self._users = 0

    @property
    def limit_bytes(self) -> int:
        return self._databases.limits.connection_bytes

    def take(self, is_stopped: Callable[[], bool]) -> duckdb.DuckDBPyConnection:
        """A cursor of the connection's own database; each is given back once."""
        with self._lock:
            if self._database is None:
                self._databases.take_place(is_stopped)
                try:
                    self._database = self._databases.open(self.limit_bytes)
                    self._prepare(self._database)
                except BaseException:
                    self._forget()
                    raise
            self._users += 1
            return self._database.cursor()

    def give_back(self, cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.close()
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._forget()

    def _forget(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
        self._databases.leave_place()
