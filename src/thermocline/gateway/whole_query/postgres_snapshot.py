"""Postgres at one point in time: one transaction of the gateway's own role that everything of a statement is read in.

The transaction stays open until the statement's last row: while it lives, the lake snapshot it saw published cannot
expire. Bulk rows come by ADBC over further connections that share its snapshot.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.rows import class_row, scalar_row
from psycopg_pool import ConnectionPool, PoolTimeout

from thermocline.errors import PostgresUnreachable
from thermocline.gateway.lake_arm.cancellable_connection import CancellableConnection, PgConnection
from thermocline.gateway.lake_arm.postgres_evaluation import wait_for_result
from thermocline.gateway.lake_arm.row_sources import Cancelled
from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.query.heap_transfer import decode_transfer
from thermocline.gateway.sql.values import NotProvable
from thermocline.runtime.pg import SESSION_SETTINGS

RowT = TypeVar("RowT")

_SETTINGS = {
    **SESSION_SETTINGS,
    "search_path": "pg_catalog",
    "timezone": "GMT",
    "application_name": "thermocline gateway",
    "jit": "off",
}
_WAIT_SECONDS = 10.0
_KEPT_READERS = 4


class SnapshotPool:
    """Where snapshots are taken; a pool of connections and one of bulk readers."""

    def __init__(self, dsn: str, *, at_once: int) -> None:
        self._dsn = dsn
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
        self._readers: list[Any] = []
        self._lock = threading.Lock()

    def open(self) -> None:
        self._pool.open()

    def close(self) -> None:
        self._pool.close(timeout=5)
        with self._lock:
            readers, self._readers = self._readers, []
        for reader in readers:
            reader.close()

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

    def take_reader(self) -> Any:
        """A bulk reader's connection."""
        with self._lock:
            if self._readers:
                return self._readers.pop()
        reader = adbc.connect(self._dsn, autocommit=True)
        with reader.cursor() as cursor:
            calls = [
                sql.SQL("set_config({}, {}, false)").format(sql.Literal(n), sql.Literal(v))
                for n, v in _SETTINGS.items()
            ]
            cursor.execute(sql.SQL("select {}").format(sql.SQL(", ").join(calls)).as_string(None))
            cursor.fetchall()
        return reader

    def return_reader(self, reader: Any) -> None:
        with self._lock:
            if len(self._readers) < _KEPT_READERS:
                self._readers.append(reader)
                return
        reader.close()


def _configure(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "select set_config(n, v, false) from unnest(%s::text[], %s::text[]) s(n, v)",
        (list(_SETTINGS), list(_SETTINGS.values())),
    )


class PostgresSnapshot:
    """One point in time."""

    def __init__(self, snapshots: SnapshotPool, conn: PgConnection) -> None:
        self._snapshots = snapshots
        self._held = CancellableConnection(conn)
        self._name: str | None = None
        self._reading: Any = None
        self._lock = threading.Lock()
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

    def read(
        self, query: sql.Composable, names: Sequence[str], sql_types: Sequence[SqlType], *, limit_bytes: int
    ) -> pa.Table:
        """A query's rows in DuckDB's own types; the query gives each column as `render_transfer` says."""
        name = self.name
        reader = self._snapshots.take_reader()
        try:
            with reader.cursor() as cursor, self._interruptible(cursor):
                if self._stopped:
                    raise Cancelled
                cursor.execute("begin isolation level repeatable read read only")
                cursor.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(name)).as_string(None))
                cursor.execute(query.as_string(None))
                table = _within(cursor.fetch_record_batch(), limit_bytes)
                cursor.execute("commit")
        except BaseException:
            reader.close()
            if self._stopped:
                raise Cancelled from None
            raise
        self._snapshots.return_reader(reader)
        arrays = [decode_transfer(column, sql_type) for column, sql_type in zip(table.columns, sql_types, strict=True)]
        return pa.table(arrays, names=list(names))

    @contextlib.contextmanager
    def _interruptible(self, cursor: Any) -> Iterator[None]:
        """The cursor may be cancelled now, and not once it is being closed."""
        with self._lock:
            self._reading = cursor
        try:
            yield
        finally:
            with self._lock:
                self._reading = None

    def interrupt(self) -> None:
        """Stops what is being read."""
        self._stopped = True
        with self._lock:
            if self._reading is not None:
                with contextlib.suppress(Exception):
                    self._reading.adbc_cancel()
        self._held.cancel()

    def close(self) -> None:
        conn = self._held.let_go()
        if conn is not None:
            self._snapshots.give_back(conn)


def _within(reader: pa.RecordBatchReader, limit_bytes: int) -> pa.Table:
    batches, size = [], 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > limit_bytes:
            raise NotProvable("more heap rows than the gateway may hold")
    return pa.Table.from_batches(batches, reader.schema)
