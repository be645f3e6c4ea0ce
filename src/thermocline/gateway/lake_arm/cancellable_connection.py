"""A connection whose work another thread may cancel, and never after it was given back: the cancel would hit whoever
has it next."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import psycopg

PgConnection = psycopg.Connection[tuple[Any, ...]]
_CANCEL_SECONDS = 5.0


class CancellableConnection:
    """A connection for the time a statement has it."""

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
        """Ask Postgres to stop, in a thread of its own: the caller is the event loop, and a cancel is a connection."""
        with self._lock:
            if self._conn is None or (self._cancelling is not None and self._cancelling.is_alive()):
                return
            self._cancelling = threading.Thread(target=_cancel, args=(self._conn,), name="gateway-cancel", daemon=True)
            self._cancelling.start()

    def let_go(self) -> PgConnection | None:
        """The connection, once no cancel is on its way to it any more; None when it was let go before."""
        with self._lock:
            conn, self._conn = self._conn, None
        if self._cancelling is not None:
            self._cancelling.join()
        return conn


def _cancel(conn: PgConnection) -> None:
    with contextlib.suppress(psycopg.Error):
        conn.cancel_safe(timeout=_CANCEL_SECONDS)
