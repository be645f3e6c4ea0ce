"""A streaming standby reads the seam: the same rows as the primary at its own point in time, writing nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.twin import Spanning, assert_same_rows

from thermocline.pg import connect
from thermocline.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port


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
        assert reader.execute("select count(*) from public_all.events").fetchall() == spanning.query("select count(*) from events")


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
