"""A worker that is no superuser, and owns the tables and the catalog, runs every verb."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.e2e.adoption import assert_heap_is_twin, unregister_spanning
from tests.twin import Spanning

from thermocline.maintain.context import PassRequest
from thermocline.maintain.run_pass import run_pass
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect, with_database
from thermocline.runtime.postgres_server import PostgresServer


@pytest.fixture
def owner_dsn(postgres: PostgresServer, template: str) -> Iterator[str]:
    """A database without our catalog, as a role that may create schemas in it and use postgres_fdw, no more."""
    role, name = (f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("worker", "bare"))
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(role)))
        conn.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
        with closing(connect(with_database(postgres.dsn(), name), autocommit=True)) as inside:
            inside.execute("create extension postgres_fdw")
            inside.execute(
                sql.SQL(
                    "grant create on database {1} to {0}; grant all on schema public to {0};"
                    " grant usage on foreign data wrapper postgres_fdw to {0}"
                ).format(sql.Identifier(role), sql.Identifier(name))
            )
        yield make_conninfo(with_database(postgres.dsn(), name), user=role, password="secret")
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
        conn.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


@pytest.mark.conforms("O-120")
def test_a_worker_that_is_no_superuser_runs_every_verb(owner_dsn: str, tmp_path: Path) -> None:
    with closing(connect(owner_dsn, autocommit=True)) as conn:
        assert conn.execute("select rolsuper from pg_roles where rolname = current_user").fetchone() == (False,)
    spanning = Spanning.make(owner_dsn, tmp_path, premake=1)
    try:
        spanning.tier()
        spanning.both("update events set v = v + 1 where id in (5, 6, 390) returning id, v")
        spanning.both("insert into events (id, ts, v) values (900, '2025-06-01', 5), (901, '2026-07-20', 6)")
        spanning.both("delete from events where id = 7")
        spanning.alter("add column extra numeric default 1.5")
        spanning.tier()
        spanning.assert_same_rows()
        spanning.fold()
        spanning.tier()
        run_pass(owner_dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=PassRequest())
        assert verify(owner_dsn, spanning.name).is_exact
        spanning.assert_same_rows()
        unregister_spanning(spanning, restore_heap=True)
        assert_heap_is_twin(spanning)
    finally:
        spanning.close()
