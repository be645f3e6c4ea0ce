"""The gateway's queries to Postgres: logins, the lake table of a name, its metadata location, its declared columns.

Tables are cached for a minute, and read again at once when a statement needs a snapshot or a column that the cached
version lacks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row
from psycopg_pool import ConnectionPool, PoolTimeout, TooManyRequests

from thermocline.core.names import TableName
from thermocline.errors import GatewayBusy, LakeTableNotServed, PostgresUnreachable
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.sql.column_mapping import ColumnsByName, DeclaredColumn, MappedTable, map_column
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.runtime.memory.bounded_cache import BoundedCache
from thermocline.runtime.pg import SESSION_SETTINGS, load_queries

_QUERIES = load_queries("thermocline.gateway", "queries/catalog_reader.sql")
_CACHE_SECONDS = 60.0
_CACHE_BYTES = 128 << 20
_COLUMN_BYTES = 1_000
_TURN_SECONDS = 0.4
_NUMBERED = re.compile(r"#(\d+)\.\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationLimits:
    """How much Postgres evaluates for the gateway at once, how many statements may wait for it, and for how long."""

    at_once: int = 8
    queued: int = 128
    wait_seconds: float = 60
    candidate_limit_bytes: int = 1_000_000_000


DEFAULT_EVALUATIONS = EvaluationLimits()


def _pool(
    dsn: str, name: str, *, max_size: int, wait_seconds: float, max_waiting: int = 0
) -> ConnectionPool[psycopg.Connection[tuple[Any, ...]]]:
    return ConnectionPool(
        dsn,
        min_size=0,
        max_size=max_size,
        open=False,
        timeout=wait_seconds,
        max_waiting=max_waiting,
        max_idle=120,
        reconnect_timeout=wait_seconds,
        check=ConnectionPool.check_connection,
        configure=_configure,
        kwargs={
            "autocommit": True,
            "application_name": "thermocline gateway",
            "connect_timeout": 5,
            "prepare_threshold": None,
        },
        name=name,
    )


class CatalogReader:
    """The gateway's view of Postgres, over a small pool that heals itself when Postgres restarts."""

    def __init__(
        self, dsn: str, *, wait_seconds: float = 10.0, evaluations: EvaluationLimits = DEFAULT_EVALUATIONS
    ) -> None:
        self._pool = _pool(dsn, "thermocline-gateway", max_size=4, wait_seconds=wait_seconds)
        self._limits = evaluations
        self._evaluations = _pool(
            dsn,
            "thermocline-gateway-evaluation",
            max_size=evaluations.at_once,
            wait_seconds=wait_seconds,
            max_waiting=evaluations.queued,
        )
        self._cache: BoundedCache[TableName, MappedTable] = BoundedCache(max_bytes=_CACHE_BYTES, seconds=_CACHE_SECONDS)
        self._functions: frozenset[str] | None = None

    def open(self) -> None:
        self._pool.open()
        self._evaluations.open()

    def close(self) -> None:
        self._pool.close(timeout=5)
        self._evaluations.close(timeout=5)

    @property
    def candidate_limit_bytes(self) -> int:
        """The most that one statement may copy to Postgres to be evaluated there."""
        return self._limits.candidate_limit_bytes

    def take_evaluation(self, is_stopped: Callable[[], bool]) -> psycopg.Connection[tuple[Any, ...]]:
        """Wait for a connection on which Postgres evaluates a statement; logins and look-ups have a pool of their
        own."""
        deadline = time.monotonic() + self._limits.wait_seconds
        while not is_stopped():
            try:
                return self._evaluations.getconn(timeout=_TURN_SECONDS)
            except TooManyRequests as full:
                raise GatewayBusy from full
            except PoolTimeout as late:
                if time.monotonic() < deadline:
                    continue
                if self._evaluations.get_stats().get("pool_size", 0) >= self._limits.at_once:
                    raise GatewayBusy from late
                raise PostgresUnreachable("The gateway cannot reach its Postgres.") from late
        raise Cancelled

    def return_evaluation(self, conn: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._evaluations.putconn(conn)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """A connection of the gateway's own role."""
        try:
            with self._pool.connection() as conn:
                yield conn
        except PoolTimeout as late:
            raise PostgresUnreachable("The gateway cannot reach its Postgres.") from late

    def check_reachable(self) -> None:
        """Raises unless Postgres answers within a few seconds."""
        try:
            with self._pool.connection(timeout=3) as conn:
                conn.execute("select 1")
        except PoolTimeout as late:
            raise PostgresUnreachable("The gateway cannot reach its Postgres.") from late

    def read_some_locations(self) -> tuple[str, ...]:
        """The current metadata files of some lakes that hold rows, never the same ones for long."""
        return tuple(str(row.metadata_location) for row in self._rows("some_locations", ()))

    def read_verifier(self, login: str) -> str | None:
        """The SCRAM verifier of a login."""
        rows = self._rows("login_verifier", (login,))
        return str(rows[0].verifier) if rows else None

    def read_published_snapshot(self, name: TableName) -> int | None:
        """Read S of a table, for ANALYZE and EXPLAIN."""
        rows = self._rows("published_snapshot", (name.schema, name.table))
        return rows[0].s if rows else None

    def read_with_row_security(self, oids: Sequence[int]) -> frozenset[int]:
        """The relations among these that have row-level security now. A statement's own snapshot may be older than the
        change, and Postgres looks at the table as it is."""
        return frozenset(row.oid for row in self.read_named("with_row_security", {"oids": list(oids)}))

    def immutable_functions(self) -> frozenset[str]:
        """The immutable functions of pg_catalog."""
        if self._functions is None:
            self._functions = frozenset(str(row.name) for row in self._rows("immutable_functions", ()))
        return self._functions

    def cached_table(self, name: TableName) -> MappedTable:
        """The cached table; read again after a minute."""
        return self._cache.read(name) or self.read_table(name)

    def read_table(self, name: TableName) -> MappedTable:
        """Read the table and cache it."""
        location = self._read_metadata_location(name)
        if location is None:
            self._cache.forget(name)
            raise LakeTableNotServed(f"There is no lake table for {name}.")
        declared = [_declared_column(row) for row in self._rows("declared_columns", (name.schema, name.table))]
        by_name = {column.name: column for column in declared}
        # Columns that changed since they were registered are looked up by field id: names may be reused, field ids
        # are not.
        by_number = {number[1]: column for column in declared if (number := _NUMBERED.fullmatch(column.name))}
        table = read_lake_table(location)
        found = (map_column(f, by_number.get(str(f.field_id)) or by_name.get(f.name)) for f in table.fields)
        mapped_table = MappedTable(
            name=name, lake_table=table, columns=ColumnsByName(column for column in found if column)
        )
        self._cache.put(name, mapped_table, table.size_bytes + _COLUMN_BYTES * len(mapped_table.columns))
        return mapped_table

    def _read_metadata_location(self, name: TableName) -> str | None:
        """The current metadata file of a registered table's lake."""
        with self.connection() as conn:
            try:
                if conn.execute(_QUERIES["registered_table"].encode(), (name.schema, name.table)).fetchone() is None:
                    return None
                return lake_catalog().read_metadata_location(conn, name)
            except psycopg.errors.UndefinedTable:
                return None

    def read_named(self, query: str, values: Mapping[str, str | int | list[int]]) -> list[Any]:
        """The rows of a query of `queries/catalog_reader.sql`, as named tuples."""
        return self._rows(query, values)

    def _rows(self, query: str, values: tuple[str, ...] | Mapping[str, str | int | list[int]]) -> list[Any]:
        """The rows of a named query, as named tuples."""
        with self.connection() as conn, conn.cursor(row_factory=namedtuple_row) as cursor:
            return list(cursor.execute(_QUERIES[query].encode(), values))


def _configure(conn: psycopg.Connection[Any]) -> None:
    settings = {**SESSION_SETTINGS, "search_path": "pg_catalog", "extra_float_digits": "3", "timezone": "GMT"}
    names, values = list(settings), list(settings.values())
    conn.execute(
        "select pg_catalog.set_config(n, v, false) from unnest(%s::text[], %s::text[]) s(n, v)", (names, values)
    )


def _declared_column(row: Any) -> DeclaredColumn:
    has_own_collation = row.collation_name and row.collation_name != "default"
    return DeclaredColumn(
        name=row.name,
        type_oid=row.type_oid,
        type_modifier=row.type_modifier,
        type_name=row.type_name,
        collation=(row.collation_schema, row.collation_name) if has_own_collation else None,
        collation_is_c=row.collation_is_c,
        collation_is_deterministic=row.collation_is_deterministic,
    )
