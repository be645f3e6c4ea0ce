"""A dump restored into another cluster and claimed: objects have other numbers there, and transactions of the old
cluster mean nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg import sql
from tests.twin import Spanning, open_session

from thermocline.errors import CopiedDatabase
from thermocline.gateway.server import start_in_thread
from thermocline.ops.admin.init_database import init_database
from thermocline.ops.admin.places import wanted_places
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port
from thermocline.seam.objects import SERVER

VERSION = "15.15.0"
"""The major whose pg_dump Debian ships beside the psql and pgbench that other tests use."""


def _program(name: str) -> str:
    return str(next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True))))


@pytest.fixture
def clusters_of_two(clusters: Path) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    servers = [
        PostgresServer(clusters / f"dumped_{at}", free_port(), FAST_TEST_SETTINGS, password="test", version=VERSION)
        for at in range(2)
    ]
    for server in servers:
        server.init()
        server.start()
    yield servers[0], servers[1]
    for server in servers:
        server.remove()


@pytest.fixture
def restored(clusters_of_two: tuple[PostgresServer, PostgresServer], tmp_path: Path) -> Iterator[Spanning]:
    """A table with history in the lake, corrections pending and folded, and a column dropped before registration;
    dumped and restored."""
    source, target = clusters_of_two
    for server in clusters_of_two:
        with closing(connect(server.dsn(), autocommit=True)) as conn:
            conn.execute("create database spanning")
    table = (
        "create table {schema}.events (gone text, id bigint not null, ts timestamptz not null, v integer not "
        "null, note text,"
        " mood public.mood, primary key (id, ts))"
    )
    with closing(connect(source.dsn("spanning"), autocommit=True)) as conn:
        conn.execute("create type public.mood as enum ('calm', 'wild')")
        # The old cluster is ahead of the new one by many transactions.
        conn.execute("do $$ begin for i in 1..2000 loop perform pg_current_xact_id(); commit; end loop; end $$")
    rows = (
        "alter table events drop column gone;"
        " insert into events select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i, 'row "
        "' || i, 'wild'"
        "   from generate_series(1, 400) i"
    )
    first = Spanning.make(source.dsn("spanning"), tmp_path, table=table, rows=rows)
    first.tier()
    first.tier()
    first.both("update events set v = v + 1000 where id in (5, 6) returning *")
    first.fold()
    first.both("update events set note = 'pending' where id in (6, 7) returning *")
    first.both("delete from events where id in (8, 380) returning *")
    first.both("insert into events values (9001, '2025-12-24 00:00+00', 1, 'spilled', 'calm') returning *")
    first.assert_same_rows()
    first.close()
    dump = tmp_path / "dump"
    environment = {**os.environ, "PGPASSWORD": "test"}
    subprocess.run([_program("pg_dump"), "-Fc", "-f", str(dump), source.dsn("spanning")], check=True, env=environment)
    subprocess.run([_program("pg_restore"), "-e", "-d", target.dsn("spanning"), str(dump)], check=True, env=environment)
    dsn = target.dsn("spanning")
    gateway = start_in_thread(dsn)
    with closing(connect(dsn, autocommit=True)) as conn:
        conn.execute(
            sql.SQL("alter server {} options (set port {})").format(
                sql.Identifier(SERVER), sql.Literal(str(gateway.port))
            )
        )
    spanning = Spanning(
        dsn=dsn,
        settings=first.settings.model_copy(update={"dsn": dsn, "gateway_listen": f"127.0.0.1:{gateway.port}"}),
        name=Spanning.table_name(),
        gateway=gateway,
        seam=open_session(dsn, "public_all, public"),
        twin=open_session(dsn, "twin"),
    )
    yield spanning
    spanning.close()


def test_a_restored_dump_is_read_claimed_written_folded_and_tiered(restored: Spanning) -> None:
    restored.assert_same_rows()
    with pytest.raises(CopiedDatabase):
        restored.fold()
    # A table that got by chance the number which the heap had in the other cluster.
    restored.seam.execute(
        "create table public.decoy (id bigint, ts timestamptz, v integer, note text, mood public.mood)"
    )
    restored.seam.execute("update thermocline.tables set heap_oid = 'public.decoy'::regclass")
    restored.seam.execute("alter table public.decoy drop column note")
    restored.seam.execute("alter table public.decoy add column extra integer default 7")
    assert init_database(restored.dsn, wanted_places(restored.settings), claim=True).unbound == ()
    assert restored.query("select folding_xid from thermocline.cutline") == [(None,)]
    assert restored.query("select heap_oid::regclass::text from thermocline.tables") == [("public.events",)]
    restored.assert_same_rows()
    restored.both("update events set note = 'after' where id in (5, 6, 9, 399) returning *")
    restored.both("delete from events where id in (10, 9001, 398) returning *")
    restored.both(
        "insert into events values (9002, '2026-01-03 01:00+00', 2, 'late', 'calm'), (9003, '2026-04-05 "
        "01:00+00', 2, 'new', 'wild')"
    )
    restored.assert_same_rows()
    assert restored.fold().op_id is not None
    restored.assert_same_rows()
    assert restored.query("select count(*) from thermocline_delta.public__events where _folded is null") == [(0,)]
    restored.seam.execute(
        "create table public.events_2026_05 partition of public.events for values from ('2026-05-01 "
        "00:00+00') to ('2026-06-01 00:00+00')"
    )
    may = (
        "select i, '2026-05-20 00:00+00'::timestamptz + i * interval '1 hour', i, 'may', 'calm' from "
        "generate_series(1, 3) i"
    )
    restored.both(f"insert into events {may}")
    restored.alter("add column extra integer default 4")
    restored.both("update events set extra = 5 where id in (11, 397) returning *")
    assert restored.tier().moved
    restored.assert_same_rows()
    restored.fold()
    restored.assert_same_rows()


def test_a_table_made_anew_under_the_name_is_not_bound(restored: Spanning) -> None:
    for statement in (
        "alter table public.events rename to events_was",
        "create table public.events (id bigint not null, ts timestamptz not null, v integer, note text, mood "
        "public.mood,"
        " primary key (id, ts)) partition by range (ts)",
    ):
        restored.seam.execute(statement.encode())
    ((unbound),) = init_database(restored.dsn, wanted_places(restored.settings), claim=True).unbound
    assert (unbound.table, unbound.reason) == (
        "public.events",
        "its DEFAULT partition is not thermocline_delta.public__events__spill",
    )
    assert restored.query("select heap_oid::bigint from thermocline.tables") == [(0,)]
