"""A streaming standby reads the seam: the same rows as the primary at its own point in time, writing nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.twin import Spanning, assert_same_rows

from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[tuple[Spanning, PostgresServer]]:
    """A primary with a registered, half-moved table, and a standby copied from it."""
    settings = {**FAST_TEST_SETTINGS, "wal_level": "replica"}
    home = tmp_path_factory.mktemp("pair")
    primary = PostgresServer(home / "primary", free_port(), settings, password="test")
    standby = PostgresServer(home / "standby", free_port(), {**settings, "hot_standby": "on"}, password="test")
    primary.init()
    primary.start()
    with connect(primary.dsn(), autocommit=True) as conn:
        conn.execute("create database spanning")
        conn.execute("checkpoint")
    primary.stop()
    standby.init()
    place = standby.data_dir.resolve()
    shutil.rmtree(place)
    shutil.copytree(primary.data_dir.resolve(), place)
    (place / "standby.signal").touch()
    with (place / "postgresql.auto.conf").open("a") as file:
        file.write(f"primary_conninfo = '{primary.dsn('postgres')}'\n")
    _own_like(primary.data_dir, place)
    primary.start()
    standby.start()
    spanning = Spanning.make(primary.dsn("spanning"), tmp_path)
    try:
        yield spanning, standby
    finally:
        spanning.close()
        standby.remove()
        primary.remove()


@pytest.mark.conforms("C-071")
def test_a_standby_reads_the_seam_before_and_after_the_cut_line_moves(pair: tuple[Spanning, PostgresServer]) -> None:
    spanning, standby = pair
    with connect(standby.dsn("postgres"), autocommit=True) as reader:
        assert reader.execute("select pg_is_in_recovery()").fetchone() == (True,)
    report = spanning.tier()
    assert len(report.moved) == 3
    assert report.dropped == []
    assert "reports no snapshots" in report.deferred[0]
    assert spanning.query("select seam_floor < t from thermocline.cutline") == [(True,)]
    spanning.both("update events set v = v + 1 where id in (5, 200, 390)")
    spanning.both("delete from events where id in (6, 201, 391)")
    spanning.both("insert into events (id, ts, v) values (9001, '2024-11-16 12:00+00', 5)")
    wait_for_replay(spanning, standby)
    with connect(standby.dsn("spanning")) as reader:
        assert_same_rows(reader)
        assert reader.execute("select count(*) from public_all.events").fetchall() == spanning.query(
            "select count(*) from events"
        )


def test_a_standby_that_is_away_for_a_moment_keeps_the_rows_of_its_readers(
    pair: tuple[Spanning, PostgresServer],
) -> None:
    spanning, standby = pair
    with connect(standby.dsn("postgres"), autocommit=True) as admin, connect(standby.dsn("spanning")) as reader:
        ((conninfo,),) = admin.execute("select current_setting('primary_conninfo')").fetchall()
        _configure(admin, "hot_standby_feedback", "on")
        wait_for_replay(spanning, standby)
        # A snapshot and no locks: replay goes on past it.
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select pg_current_snapshot()")
        _wait(spanning, "select count(*) = 1 from pg_stat_replication where backend_xmin is not null")
        assert len(spanning.tier().moved) == 3
        _configure(admin, "primary_conninfo", "host=127.0.0.1 port=1")
        _wait(spanning, "select count(*) = 0 from pg_stat_replication")
        away = spanning.tier()
        assert (away.dropped, "which is away since" in away.deferred[0]) == ([], True)
        assert spanning.query("select seam_floor < t from thermocline.cutline") == [(True,)]
        _configure(admin, "primary_conninfo", conninfo)
        _wait(spanning, "select count(*) = 1 from pg_stat_replication where backend_xmin is not null")
        assert spanning.tier().dropped == []
        assert_same_rows(reader)
        reader.rollback()
        _wait(
            spanning,
            "select bool_and(age(r.backend_xmin) < age(p.tiered_xid::xid))"
            "  from pg_stat_replication r, thermocline.partitions p where p.state = 'tiered'",
        )
        assert len(spanning.tier().dropped) == 3


def _configure(admin: psycopg.Connection[Any], name: str, value: str) -> None:
    admin.execute(sql.SQL("alter system set {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    admin.execute("select pg_reload_conf()")


def _wait(spanning: Spanning, condition: str) -> None:
    deadline = time.monotonic() + 30
    while spanning.query(condition) != [(True,)]:
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


@pytest.mark.conforms("C-071")
def test_a_read_only_transaction_reads_both_tiers_and_takes_no_transaction_id(spanning: Spanning) -> None:
    spanning.tier()
    reader = spanning.session()
    reader.execute("set transaction read only")
    assert_same_rows(reader)
    assert reader.execute("select pg_current_xact_id_if_assigned()").fetchall() == [(None,)]


def wait_for_replay(spanning: Spanning, standby: PostgresServer) -> None:
    (target,) = spanning.query("select pg_current_wal_insert_lsn()::text")[0]
    deadline = time.monotonic() + 30
    with connect(standby.dsn("postgres"), autocommit=True) as reader:
        while reader.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", [target]).fetchone() != (True,):
            assert time.monotonic() < deadline, "the standby does not follow"
            time.sleep(0.05)


def _own_like(model: Path, target: Path) -> None:
    """Root runs Postgres as another user, who must own every file of the copy."""
    owner = model.resolve().stat()
    for path in (target.resolve(), *target.resolve().rglob("*")):
        shutil.chown(path, owner.st_uid, owner.st_gid)
