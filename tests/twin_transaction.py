"""Statement shapes in one session: each statement runs on the spanning table and on its twin, in a transaction that is
rolled back.

One tiered table serves a whole module, so a shape costs milliseconds. The same text runs on both sides: the spanning
side with `search_path = public_all, public`, the twin's with `search_path = twin`, where `public.events`, the heap's
own name, becomes `twin.events`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from tests.twin import Outcome, Spanning, assert_same_rows

from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database
from thermocline.runtime.postgres_server import PostgresServer

SEAM_PATH, TWIN_PATH = "public_all, public", "twin"


@contextmanager
def spanning_module(
    postgres: PostgresServer, template: str, directory: Path, *, before: str = "", **choices: Any
) -> Iterator[Spanning]:
    """A spanning table in a database of its own, for a whole module; `before` runs ahead of all."""
    name = f"module_{uuid.uuid4().hex[:12]}"
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
    with closing(connect(with_database(postgres.dsn(), name), autocommit=True)) as conn:
        if before:
            conn.execute(before.encode())
    spanning = Spanning.make(with_database(postgres.dsn(), name), directory, **choices)
    try:
        yield spanning
    finally:
        spanning.close()
        with closing(connect(postgres.dsn(), autocommit=True)) as conn:
            conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@dataclass(slots=True)
class TwinTransaction:
    """One open transaction that holds both sides."""

    conn: psycopg.Connection[Any]
    turn: int = 0

    def assert_same_rows(self) -> None:
        self.turn += 1
        assert_same_rows(self.conn, self.turn)

    def check_both(self, statement: str, params: Sequence[Any] = ()) -> Outcome:
        """Run on both sides; rows, tag and SQLSTATE must agree, and all rows of both tables after it."""
        ours, twins = self.ours(statement, params), self.twins(statement, params)
        assert ours == twins, f"{statement}\nspanning: {ours}\ntwin:     {twins}"
        self.assert_same_rows()
        return twins

    def ours(self, statement: str, params: Sequence[Any] = ()) -> Outcome:
        return self._run(SEAM_PATH, statement, params)

    def twins(self, statement: str, params: Sequence[Any] = ()) -> Outcome:
        return self._run(TWIN_PATH, statement.replace("public.events", "twin.events"), params)

    def copy(self, statement: str, data: bytes) -> None:
        """COPY … FROM STDIN on both sides."""
        for path in (SEAM_PATH, TWIN_PATH):
            self._path(path)
            text = statement if path == SEAM_PATH else statement.replace("public.events", "twin.events")
            with self.conn.cursor() as cursor:
                with cursor.copy(text.encode()) as copy:
                    copy.write(data)
                assert cursor.statusmessage == f"COPY {cursor.rowcount}"
        self.assert_same_rows()

    def count(self, relation: str, condition: str = "true") -> int:
        row = self.conn.execute(f"select count(*) from {relation} where {condition}".encode()).fetchone()
        assert row is not None
        return int(row[0])

    def _path(self, path: str) -> None:
        self.conn.execute("select set_config('search_path', %s, true)", [path])

    def _run(self, path: str, statement: str, params: Sequence[Any]) -> Outcome:
        self._path(path)
        try:
            with self.conn.transaction():
                cursor = self.conn.execute(statement.encode(), params or None)
                rows = cursor.fetchall() if cursor.description else []
                return Outcome("00000", cursor.statusmessage or "", sorted(rows, key=repr))
        except psycopg.Error as problem:
            return Outcome(problem.sqlstate or "?", "", [])


@contextmanager
def rolled_back_transaction(dsn: str) -> Iterator[TwinTransaction]:
    with closing(connect(dsn, application_name="test")) as conn:
        yield TwinTransaction(conn)
        conn.rollback()
