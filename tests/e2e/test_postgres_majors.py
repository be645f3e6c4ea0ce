"""The whole line on every Postgres major that is supported, stock, with contrib alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.twin import Spanning

from thermocline.ops.explain import explain
from thermocline.pg import connect
from thermocline.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

MAJORS = ("14.20.0", "15.15.0", "16.11.0", "17.7.0")


@pytest.mark.conforms("C-007", "C-011")
@pytest.mark.parametrize("version", MAJORS)
def test_register_tier_read_and_write_on_a_stock_postgres(version: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    settings = {**FAST_TEST_SETTINGS, "wal_level": "replica"}
    server = PostgresServer(tmp_path_factory.mktemp("major") / "data", free_port(), settings, password="test", version=version)
    server.init()
    server.start()
    try:
        with connect(server.dsn(), autocommit=True) as conn:
            conn.execute("create database spanning")
        spanning = Spanning.make(server.dsn("spanning"), tmp_path)
        try:
            _check_walk(spanning)
        finally:
            spanning.close()
    finally:
        server.remove()


def _check_walk(spanning: Spanning) -> None:
    assert len(spanning.tier().moved) == 3
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (5, 200, 390) returning *")
    spanning.both("delete from events where id in (6, 201, 391) returning id")
    spanning.both("insert into events (id, ts, v) values (9001, '2024-11-16 12:00+00', 5), (9002, '2026-04-20 12:00+00', 6) returning *")
    spanning.both("update events set ts = '2026-04-21 00:00+00' where id = 7 returning *")
    spanning.assert_same_rows()
    (hot,) = explain(spanning.dsn, "select * from public_all.events where ts >= '2026-04-02'").tables
    (cold,) = explain(spanning.dsn, "select * from public_all.events where ts < '2026-02-01'").tables
    assert (hot.verdict, hot.questions, cold.verdict, len(cold.questions)) == ("provably hot", (), "provably cold", 1)
    for change in ("add column extra integer default 4", "alter column v type bigint", "rename column note to remark", "drop column doc"):
        spanning.alter(change)
        spanning.assert_same_rows()
    spanning.both("update events set extra = 5, remark = 'r' where id in (8, 395) returning *")
    assert len(spanning.tier().dropped) in (0, 3)
    spanning.assert_same_rows()
    assert spanning.query("select extname from pg_extension order by 1") == [("plpgsql",), ("postgres_fdw",)]
    assert spanning.query("select count(*) from pg_replication_slots") == [(0,)]
    assert spanning.query("select count(*) from pg_publication") == [(0,)]
