"""An ADBC connection to Postgres that is kept from one read to the next.

ADBC 1.8.0 aborts the process when it uses a connection whose server is gone: libpq reports a lost connection without an
SQLSTATE, and the driver makes a string of the null pointer. So whether the server closed the connection is asked of its
socket before each read, and a connection whose socket is not known is not kept.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg import sql

from thermocline.gateway.executor.jobs import READ_SETTINGS, PostgresRead
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.sql.query.heap_transfer import decode_transfer
from thermocline.gateway.sql.values import NotProvable
from thermocline.runtime.pg import pinned_dsn, render_settings

_connecting = threading.Lock()


class BulkReader:
    """One connection, with the settings of a session."""

    def __init__(self, dsn: str) -> None:
        with _connecting:
            before = _open_sockets()
            self.connection: Any = adbc.connect(pinned_dsn(dsn), autocommit=True)
            made = _open_sockets() - before
        # Other threads open sockets too: with more than one new socket, nobody knows which is this connection's.
        self._socket = made.pop() if len(made) == 1 else None
        with self.connection.cursor() as cursor:
            cursor.execute(render_settings(READ_SETTINGS).as_string(None))
            cursor.fetchall()

    def may_be_used(self) -> bool:
        """Whether the server has neither closed the idle connection nor sent anything on it, such as an error."""
        if self._socket is None or self._socket not in _open_sockets():
            return False
        poll = select.poll()
        poll.register(self._socket[0], select.POLLIN | select.POLLRDHUP)
        return not poll.poll(0)

    def close(self) -> None:
        self.connection.close()


def _open_sockets() -> set[tuple[int, int]]:
    """File descriptor and inode of each socket of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            entry = os.fstat(int(name))
        except OSError:  # the directory itself, or closed by another thread
            continue
        if stat.S_ISSOCK(entry.st_mode):
            found.add((int(name), entry.st_ino))
    return found


class BulkReads:
    """The reads of one executor; the connection of the last one is kept."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._kept: BulkReader | None = None
        self._lock = threading.Lock()

    def at(self, snapshot: str, *, limit_bytes: int) -> SnapshotReads:
        """Reads at an exported snapshot."""
        return SnapshotReads(self, snapshot, limit_bytes)

    def take(self) -> BulkReader:
        """A connection that Postgres has not closed."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            if kept.may_be_used():
                return kept
            kept.close()
        return BulkReader(self._dsn)

    def give_back(self, reader: BulkReader) -> None:
        with self._lock:
            if self._kept is None:
                self._kept = reader
                return
        reader.close()


class SnapshotReads:
    """Reads of one statement, which another thread may interrupt."""

    def __init__(self, reads: BulkReads, snapshot: str, limit_bytes: int) -> None:
        self._reads = reads
        self._snapshot = snapshot
        self._limit_bytes = limit_bytes
        self._running: set[Any] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def read(self, read: PostgresRead) -> pa.Table:
        """A query's rows in DuckDB's own types."""
        reader = self._reads.take()
        try:
            with reader.connection.cursor() as cursor, self._interruptible(cursor):
                if self._stopped:
                    raise Cancelled
                cursor.execute("begin isolation level repeatable read read only")
                shared = sql.SQL("set transaction snapshot {}").format(sql.Literal(self._snapshot))
                cursor.execute(shared.as_string(None))
                cursor.execute(read.query)
                table = _within(cursor.fetch_record_batch(), self._limit_bytes)
                cursor.execute("commit")
        except BaseException:
            reader.close()
            if self._stopped:
                raise Cancelled from None
            raise
        self._reads.give_back(reader)
        columns = zip(table.columns, read.sql_types, strict=True)
        return pa.table([decode_transfer(column, sql_type) for column, sql_type in columns], names=list(read.columns))

    @contextmanager
    def _interruptible(self, cursor: Any) -> Iterator[None]:
        """The cursor may be cancelled now, and not once it is being closed."""
        with self._lock:
            self._running.add(cursor)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(cursor)

    def interrupt(self) -> None:
        """Cancel the reads that run."""
        self._stopped = True
        with self._lock:
            for cursor in self._running:
                with suppress(Exception):
                    cursor.adbc_cancel()


def _within(reader: pa.RecordBatchReader, limit_bytes: int) -> pa.Table:
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > limit_bytes:
            raise NotProvable("more heap rows than the gateway may hold")
    return pa.Table.from_batches(batches, reader.schema)
