"""Upgrades: a dump and a warehouse of each earlier release, restored, claimed, read, written and moved by this program.

Each release is one folder in `tests/releases`; `tests/releases/make_release.py` says what is in it. The dump is
restored into the run's own Postgres, which may be a later major than the one that made it. Everything but reads and
writes is done by the command line, as a user would do it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from tests.releases.fixture import Program, assert_same_table, hold_place, read_versions, restore_dump, unpack_warehouse
from tests.twin import Spanning, open_session, run

from thermocline.gateway.server import start_in_thread
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.pg import with_database
from thermocline.runtime.postgres_server import PostgresServer, free_port
from thermocline.runtime.settings import Settings

TABLES = ("public.events", "public.ledger")
EAGER = (
    *("rewrite_min_input_files=2", "manifest_rewrite_min_manifests=1", "orphan_sweep_enabled=true"),
    *("snapshot_min_retained=1", "snapshot_retention_ms=1"),
)
"""A pass that compacts, rewrites manifests, sweeps, and expires the snapshots that the earlier release left."""

WRITES = (
    "update events set n = n + 1, loose = 2.50 where id in (5, 13, 70, 76, 130, 205) returning *",
    "update events set doc = '{\"after\": 1.10}', mood = 'wild' where id in (9, 9002) returning *",
    "delete from events where id in (10, 14, 77, 131, 206) returning *",
    "insert into events (id, ts, n) values (9101, '2026-02-03 04:05+00', 1) returning *",
    "insert into events (id, ts, n) values (9102, '2026-04-03 04:05+00', 1) returning *",
    "insert into events (id, ts, n, raw) values (9103, '2024-02-29 00:00+00', 1, '\\x00ff') returning *",
    "update events set ts = '2026-04-12 02:00+00' where id = 15 returning *",
    "update ledger set balance = 0.0001, rate = 'NaN' where id in (5, 21, 125, 317) returning *",
)
WRITES_ON_THE_HEAP = (
    "update ledger set note = 'on the heap' where id in (13, 25, 129, 321) returning *",
    "delete from ledger where id in (29, 133, 325) returning *",
    "insert into ledger (id, note, day) values (30, 'late', '2026-01-01'), (330, 'new', null) returning *",
)
NEWER = (
    "insert into events (id, ts, n) values (9201, '2026-05-20 01:00+00', 1), (9202, '2026-05-21', 2) returning *",
    "insert into ledger (id, note) select 450 + i, 'more' from generate_series(1, 5) i returning *",
)
"""Rows above the newest one, so that the next partition is behind the lag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """A restored database after `init --claim`: its tables, their twins, and this program's commands on them."""

    program: Program
    claimed: dict[str, Any]
    events: Spanning

    def both(self, statement: str) -> None:
        """The statement on a spanning table and on its twin, with the same rows back, and some."""
        assert self.events.both(statement), statement

    def on_the_heap(self, statement: str) -> None:
        """The statement on the heap's own name, where keep-heap captures it, and on the twin."""
        with closing(open_session(self.program.dsn, "public")) as heap:
            ours = run(heap, statement)
        assert ours == run(self.events.twin, statement)
        assert ours.rows, statement

    def for_each_table(self, command: str, *options: str) -> list[Any]:
        """The command on every table; then all rows are as before."""
        told = [self.program.run(command, table, *options) for table in TABLES]
        self.assert_same_rows()
        return told

    def assert_same_rows(self) -> None:
        """The seams have the twins' rows; so has the heap that keeps every row."""
        self.events.assert_same_rows()
        conn = self.events.seam
        assert_same_table(conn, "public_all.events", "twin.events")
        assert_same_table(conn, "public_all.ledger", "twin.ledger")
        assert_same_table(conn, "public.ledger", "twin.ledger")

    def assert_verified(self) -> None:
        (found,) = {report["ok"] for report in self.program.run("verify", "--all")}
        assert found


@pytest.fixture
def empty_database(postgres: PostgresServer) -> Iterator[str]:
    """The DSN of a database with nothing in it."""
    name = f"upgraded_{uuid.uuid4().hex[:12]}"
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
    yield with_database(postgres.dsn(), name)
    with closing(connect(postgres.dsn(), autocommit=True)) as conn:
        conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture(params=read_versions())
def upgraded(request: pytest.FixtureRequest, empty_database: str, tmp_path: Path) -> Iterator[Upgraded]:
    version, dsn = str(request.param), empty_database
    with hold_place(version) as place:
        warehouse = unpack_warehouse(version, place)
        restore_dump(version, dsn)
        program = Program.make(tmp_path, dsn, warehouse=warehouse, gateway_port=(port := free_port()))
        claimed = program.run("init", "--claim")
        events = Spanning(
            dsn=dsn,
            settings=Settings(dir=tmp_path, dsn=dsn, warehouse=str(warehouse)),
            name=Spanning.table_name(),
            gateway=start_in_thread(dsn, port),
            seam=open_session(dsn, "public_all, public"),
            twin=open_session(dsn, "twin"),
        )
        try:
            yield Upgraded(program=program, claimed=claimed, events=events)
        finally:
            events.close()


def test_a_database_of_an_earlier_release_goes_on_with_this_program(upgraded: Upgraded) -> None:
    _check_as_it_was_left(upgraded)
    _check_writes(upgraded)
    _check_moves(upgraded)
    _check_upkeep(upgraded)
    _check_leaving(upgraded)


def _check_as_it_was_left(upgraded: Upgraded) -> None:
    """Every row is there before anything was written; what waited in the delta still waits."""
    query = upgraded.events.query
    assert upgraded.claimed["catalog_version"] == query("select max(version) from thermocline.schema_version")[0][0]
    upgraded.assert_same_rows()
    states = {row[0]: row[1] for row in query(_STATES)}
    assert states == {"events": ["dropped", "hot", "tiered"], "ledger": ["hot", "tiered"]}
    assert query(_MOVING) == [("events", True, 30 * 86_400_000_000, True), ("ledger", True, 0, True)]
    for table in TABLES:
        assert query(_PENDING.format(table=table.replace(".", "__")))[0][0] > 0
    upgraded.assert_verified()


_STATES = """
select t.table_name, array_agg(distinct p.state order by p.state)
  from thermocline.tables t join thermocline.partitions p on p.table_id = t.id group by 1"""
_MOVING = """
select t.table_name, t.started_at = t.created_at, t.reclaim_lag,
       (select bool_and(p.moved_at <= p.changed_at and p.moved_at < now() - interval '1 hour')
          from thermocline.partitions p where p.table_id = t.id and p.state = 'tiered')
  from thermocline.tables t order by 1"""
"""They moved by themselves, so they are started; what was left of the reclaim lag after the tiering lag counts from the
move, which was before the upgrade."""
_PENDING = "select count(*) from thermocline_delta.{table} where _folded is null"


def _check_writes(upgraded: Upgraded) -> None:
    """Rows in the lake alone, in both tiers, corrected, spilled and hot; new ones on either side of the cut-line."""
    for statement in WRITES:
        upgraded.both(statement)
    for statement in WRITES_ON_THE_HEAP:
        upgraded.on_the_heap(statement)
    upgraded.assert_same_rows()


def _check_moves(upgraded: Upgraded) -> None:
    """The cut-line goes on from where the earlier release left it, and what it left in the delta is folded."""
    for statement in NEWER:
        upgraded.both(statement)
    for told in upgraded.for_each_table("tier"):
        assert told["moved"], told
    upgraded.for_each_table("tier")
    for told in upgraded.for_each_table("fold"):
        assert told["commits"] == 1, told
    for table in TABLES:
        assert upgraded.events.query(_PENDING.format(table=table.replace(".", "__"))) == [(0,)]
    upgraded.assert_verified()


def _check_upkeep(upgraded: Upgraded) -> None:
    """A column that comes later, and a pass over files of both programs that expires what the earlier one left."""
    upgraded.events.alter("add column later text default 'l'")
    upgraded.both("update events set later = 'set' where id in (16, 78, 207) returning *")
    upgraded.for_each_table("fold")
    for table in TABLES:
        upgraded.program.run("policy", table, *(part for setting in EAGER for part in ("--set", setting)))
    for told in upgraded.for_each_table("maintain"):
        assert told["status"] == "done", told["sentence"]
        assert told["results"]["expire_snapshots.snapshots_expired"] > 0, told["sentence"]
    upgraded.assert_verified()


def _check_leaving(upgraded: Upgraded) -> None:
    """All history comes back into ordinary tables, and nothing is left of the lake."""
    for table in TABLES:
        told = upgraded.program.run("unregister", table, "--fold", "--restore-heap", "--drop-lake", "--yes-drop", table)
        assert told["lake_kept_at"] is None
    for table in ("events", "ledger"):
        assert_same_table(upgraded.events.twin, f"public.{table}", f"twin.{table}")
    assert upgraded.events.query("select count(*) from thermocline.tables") == [(0,)]
