"""Postgres at one point in time: one transaction of the gateway's own role that everything of a statement is read in.

The transaction stays open until the statement's last row: while it lives, the lake snapshot it saw published cannot
expire. Executors read rows in bulk over connections of their own that share its snapshot.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import class_row, scalar_row
from psycopg_pool import ConnectionPool, PoolTimeout

from thermocline.errors import PostgresUnreachable
from thermocline.gateway.executor.jobs import READ_SETTINGS
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.lake_arm.cancellable_connection import CancellableConnection, PgConnection
from thermocline.gateway.lake_arm.postgres_evaluation import wait_for_result

RowT = TypeVar("RowT")

_WAIT_SECONDS = 10.0


class SnapshotPool:
    """Where snapshots are taken: a pool of connections."""

    def __init__(self, dsn: str, *, at_once: int) -> None:
        self._pool: ConnectionPool[PgConnection] = ConnectionPool(
            dsn,
            min_size=0,
            max_size=at_once,
            open=False,
            timeout=_WAIT_SECONDS,
            max_idle=120,
            check=ConnectionPool.check_connection,
            configure=_configure,
            kwargs={"autocommit": True, "connect_timeout": 5},
            name="thermocline-gateway-whole",
        )

    def open(self) -> None:
        self._pool.open()

    def close(self) -> None:
        self._pool.close(timeout=5)

    def take(self, name: str | None = None) -> PostgresSnapshot:
        """A snapshot of now, or the one exported under this name."""
        try:
            conn = self._pool.getconn()
        except PoolTimeout as late:
            raise PostgresUnreachable("The gateway cannot reach its Postgres.") from late
        snapshot = PostgresSnapshot(self, conn)
        try:
            conn.execute("begin isolation level repeatable read read only")
            if name is not None:
                conn.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(name)))
        except BaseException:
            snapshot.close()
            raise
        return snapshot

    def give_back(self, conn: PgConnection) -> None:
        with contextlib.suppress(psycopg.Error):
            conn.rollback()
        self._pool.putconn(conn)


def _configure(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "select pg_catalog.set_config(n, v, false) from unnest(%s::text[], %s::text[]) s(n, v)",
        (list(READ_SETTINGS), list(READ_SETTINGS.values())),
    )


class PostgresSnapshot:
    """One point in time."""

    def __init__(self, snapshots: SnapshotPool, conn: PgConnection) -> None:
        self._snapshots = snapshots
        self._held = CancellableConnection(conn)
        self._name: str | None = None
        self._stopped = False

    def read_rows(self, row_class: type[RowT], query: str, values: dict[str, Any]) -> list[RowT]:
        """The rows of a query, each as an instance of the class; columns are its fields by name."""
        with self._open_connection().cursor(row_factory=class_row(row_class)) as cursor:
            return cursor.execute(query.encode(), values).fetchall()

    def read_value(self, query: str | sql.Composable, values: dict[str, Any] | None = None) -> Any:
        """The one value of a query with one row."""
        conn = self._open_connection()
        text = query if isinstance(query, str) else query.as_string(conn)
        with conn.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(text.encode(), values).fetchone()

    def result_types(self, query: str) -> tuple[int, ...]:
        """The types of a statement's columns, as Postgres describes it without running it."""
        conn = self._open_connection()
        for send in (
            partial(conn.pgconn.send_prepare, b"", query.encode()),
            partial(conn.pgconn.send_describe_prepared, b""),
        ):
            send()
            described = wait_for_result(conn)
        return tuple(described.ftype(at) for at in range(described.nfields))

    def _open_connection(self) -> PgConnection:
        conn = self._held.conn
        if conn is None or self._stopped:
            raise Cancelled
        return conn

    @property
    def name(self) -> str:
        """Under which other connections may share it."""
        if self._name is None:
            self._name = str(self.read_value("select pg_export_snapshot()"))
        return self._name

    def interrupt(self) -> None:
        """Stops what is being read."""
        self._stopped = True
        self._held.cancel()

    def close(self) -> None:
        conn = self._held.let_go()
        if conn is not None:
            self._snapshots.give_back(conn)
