"""A database to register tables in, roles that come and go, and the listing of everything that could be left behind."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.postgres.traces import read_traces

from thermocline.core.names import TableName, parse_table_name
from thermocline.gateway.server import start_in_thread
from thermocline.ops.register.registration import RegisterReport, RegisterRequest, register
from thermocline.ops.register.unregistration import UnregisterReport, unregister
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database
from thermocline.runtime.postgres_server import PostgresServer
from thermocline.runtime.settings import Settings


@dataclass(slots=True)
class Shop:
    """A database, its warehouse, and a session of the superuser."""

    dsn: str
    settings: Settings
    conn: psycopg.Connection[Any]
    made: list[psycopg.Connection[Any]] = field(default_factory=list)

    @property
    def warehouse(self) -> Path:
        return Path(self.settings.warehouse_location)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.conn.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.conn.execute(query.encode()).fetchall()

    def session(self, dsn: str | None = None, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        conn = connect(dsn or self.dsn, autocommit=autocommit)
        self.made.append(conn)
        return conn

    def register(
        self, table: str | TableName = "public.events", dsn: str | None = None, **request: Any
    ) -> RegisterReport:
        name = table if isinstance(table, TableName) else parse_table_name(table)
        return register(dsn or self.dsn, RegisterRequest(table=name, **request), settings=self.settings)

    def unregister(
        self, table: str | TableName = "public.events", dsn: str | None = None, **choices: Any
    ) -> UnregisterReport:
        name = table if isinstance(table, TableName) else parse_table_name(table)
        return unregister(dsn or self.dsn, name, settings=self.settings, **choices)

    def traces(self) -> set[tuple[str, ...]]:
        return read_traces(self.dsn, self.warehouse)

    def as_role(self, role: str) -> str:
        return make_conninfo(self.dsn, user=role, password="secret")


@pytest.fixture
def make_role(postgres: PostgresServer) -> Iterator[Callable[[], str]]:
    """Makes login roles without any right; they go after the databases that know them."""
    made: list[str] = []

    def make() -> str:
        name = f"role_{uuid.uuid4().hex[:8]}"
        with closing(connect(postgres.dsn(), autocommit=True)) as conn:
            conn.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        made.append(name)
        return name

    yield make
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        for name in made:
            conn.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
            conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture
def shop(make_role: Callable[[], str], database: str, tmp_path: Path) -> Iterator[Shop]:
    """A fresh database with our catalog in it; a warehouse with a space in its name."""
    gateway = start_in_thread(database)
    listen = f"127.0.0.1:{gateway.port}"
    settings = Settings(
        dir=tmp_path, warehouse=str(tmp_path / "lake house"), gateway_listen=listen, lock_timeout_ms=300
    )
    opened = Shop(dsn=database, settings=settings, conn=connect(database, autocommit=True))
    yield opened
    for conn in (*opened.made, opened.conn):
        conn.close()
    gateway.stop()


@pytest.fixture
def bare_database(make_role: Callable[[], str], postgres: PostgresServer) -> Iterator[str]:
    """The DSN of a database without our catalog."""
    name = f"bare_{uuid.uuid4().hex[:8]}"
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
    yield with_database(postgres.dsn(), name)
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
