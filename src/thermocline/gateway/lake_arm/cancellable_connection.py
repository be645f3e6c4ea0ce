"""A connection whose query another thread may cancel. A cancel is never sent after the connection was returned to its
pool: it would hit the next user's query."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import psycopg

PgConnection = psycopg.Connection[tuple[Any, ...]]
_CANCEL_SECONDS = 5.0


class CancellableConnection:
    """A pooled connection while one statement uses it."""

    def __init__(self, conn: PgConnection | None = None) -> None:
        self._lock = threading.Lock()
        self._conn = conn
        self._cancelling: threading.Thread | None = None

    @property
    def conn(self) -> PgConnection | None:
        return self._conn

    def take(self, conn: PgConnection) -> None:
        with self._lock:
            self._conn = conn

    def cancel(self) -> None:
        """Send a cancel request, in a thread: it opens a connection, and the caller is the event loop."""
        with self._lock:
            if self._conn is None or (self._cancelling is not None and self._cancelling.is_alive()):
                return
            self._cancelling = threading.Thread(target=_cancel, args=(self._conn,), name="gateway-cancel", daemon=True)
            self._cancelling.start()

    def let_go(self) -> PgConnection | None:
        """Wait for a cancel in progress and return the connection; None when it was released before."""
        with self._lock:
            conn, self._conn = self._conn, None
        if self._cancelling is not None:
            self._cancelling.join()
        return conn


def _cancel(conn: PgConnection) -> None:
    with contextlib.suppress(psycopg.Error):
        conn.cancel_safe(timeout=_CANCEL_SECONDS)
