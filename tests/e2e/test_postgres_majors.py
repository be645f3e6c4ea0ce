"""The whole line on every Postgres major that is supported, stock, with contrib alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.twin import Spanning

from thermocline.maintain.run_pass import PassRequest, run_pass
from thermocline.ops.inspect.explain import explain
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

MAJORS = ("14.20.0", "15.15.0", "16.11.0", "17.7.0")
EAGER = {
    "rewrite_min_input_files": 2,
    "snapshot_min_retained": 1,
    "manifest_rewrite_min_manifests": 1,
    "orphan_sweep_enabled": True,
}


@pytest.mark.conforms("C-007", "C-011")
@pytest.mark.parametrize("version", MAJORS)
def test_every_mode_and_every_operation_on_a_stock_postgres(
    version: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    settings = {**FAST_TEST_SETTINGS, "wal_level": "replica"}
    server = PostgresServer(
        tmp_path_factory.mktemp("major") / "data", free_port(), settings, password="test", version=version
    )
    server.init()
    server.start()
    try:
        with connect(server.dsn(), autocommit=True) as conn:
            for name in WALKS:
                conn.execute(f"create database {name}".encode())
        for name, (walk, choices) in WALKS.items():
            spanning = Spanning.make(server.dsn(name), tmp_path / name, **choices)
            try:
                walk(spanning)
            finally:
                spanning.close()
    finally:
        server.remove()


def _check_tiered(spanning: Spanning) -> None:
    assert len(spanning.tier().moved) == 3
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (5, 200, 390) returning *")
    spanning.both("delete from events where id in (6, 201, 391) returning id")
    spanning.both(
        "insert into events (id, ts, v) values (9001, '2024-11-16 12:00+00', 5), (9002, '2026-04-20 "
        "12:00+00', 6) returning *"
    )
    spanning.both("update events set ts = '2026-04-21 00:00+00' where id = 7 returning *")
    spanning.assert_same_rows()
    (hot,) = explain(spanning.dsn, "select * from public_all.events where ts >= '2026-04-02'").tables
    (cold,) = explain(spanning.dsn, "select * from public_all.events where ts < '2026-02-01'").tables
    assert (hot.verdict, hot.questions, cold.verdict, len(cold.questions)) == ("provably hot", (), "provably cold", 1)
    for change in (
        "add column extra integer default 4",
        "alter column v type bigint",
        "rename column note to remark",
        "drop column doc",
    ):
        spanning.alter(change)
        spanning.assert_same_rows()
    spanning.both("update events set extra = 5, remark = 'r' where id in (8, 395) returning *")
    assert len(spanning.tier().dropped) in (0, 3)
    assert spanning.fold().commits == 1
    spanning.assert_same_rows()
    spanning.both("update events set extra = 6 where id in (8, 9, 200) returning *")
    assert spanning.fold().commits == 1
    _check_pass(spanning)
    spanning.assert_same_rows(each=1)
    assert spanning.query("select extname from pg_extension order by 1") == [("plpgsql",), ("postgres_fdw",)]
    assert spanning.query("select count(*) from pg_replication_slots") == [(0,)]
    assert spanning.query("select count(*) from pg_publication") == [(0,)]


def _check_pass(spanning: Spanning) -> None:
    """Compaction, manifests, expiry and a sweep."""
    spanning.seam.execute("update thermocline.tables set maintenance_policy = %s", [Jsonb(EAGER)])
    report = run_pass(
        spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=PassRequest()
    )
    assert report.status == "done", report.sentence
    assert report.sentence.startswith("compact: compacted ")


def _check_kept(spanning: Spanning) -> None:
    """The heap keeps every row, and statements on either name reach both tiers."""
    assert len(spanning.tier().moved) == 3
    spanning.both("update events set v = v + 1, note = 'seam' where id % 50 = 1 returning id, v")
    for table in ("public.events", "twin.events"):
        spanning.seam.execute(f"update {table} set note = 'heap' where id % 50 = 2".encode())
        spanning.seam.execute(f"delete from {table} where id % 50 = 3".encode())
    spanning.assert_same_rows()
    assert spanning.fold().commits == 1
    spanning.assert_same_rows(each=1)
    assert spanning.query("select count(*) from (table public.events except all table twin.events) d") == [(0,)]


def _check_expiring(spanning: Spanning) -> None:
    """Rows below the line go from the lake; a write below it is refused."""
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (20, 300) returning *")
    spanning.tier()
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows(each=1)
    with pytest.raises(psycopg.errors.CheckViolation, match="below the retention line"):
        spanning.seam.execute("insert into events (id, ts, v) values (9001, '2026-01-05', 1)")


WALKS: dict[str, tuple[Callable[[Spanning], None], dict[str, Any]]] = {
    "tiered": (_check_tiered, {}),
    "kept": (_check_kept, {"keep_heap": True}),
    "expiring": (_check_expiring, {"lake_retention": "30d"}),
}
