"""What the planner knows of the lake: the worker keeps it fresh, and estimates through the seam are near the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.twin import Spanning

from thermocline.catalog.tables import find_table
from thermocline.ops.admin.statistics import LakeStatistics, read_statistics, refresh_statistics, why_not_analyze
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import free_port
from thermocline.worker.loop import Worker

ROWS = """
insert into events
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '36 minutes', i % 100, 'row ' || i % 50, i / 7.0, null, null
  from generate_series(1, 4700) i
"""
CONDITIONS = (
    "true",
    "ts < '2026-02-01'",
    "ts < '2026-03-01'",
    "ts >= '2026-02-01' and ts < '2026-03-01'",
    "ts >= '2026-03-10' and ts < '2026-03-20'",
    "ts < '2026-04-01' and v = 7",
    "ts < '2026-04-01' and v < 30",
    "ts < '2026-04-01' and id between 100 and 900",
)


@pytest.fixture
def tiered(make_spanning: Callable[..., Spanning]) -> Spanning:
    spanning = make_spanning(rows=ROWS)
    _cycle(spanning)
    return spanning


def _cycle(spanning: Spanning) -> None:
    worker = Worker(spanning.dsn, spanning.settings)
    with connect(spanning.dsn, autocommit=True) as conn:
        assert worker.run_cycle(conn)


def _statistics(spanning: Spanning) -> LakeStatistics:
    with connect(spanning.dsn, autocommit=True) as conn:
        seen = read_statistics(conn, find_table(conn, spanning.name))
    assert seen is not None
    return seen


def _lake_scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    mine = [plan] if plan["Node Type"] == "Foreign Scan" else []
    return mine + [scan for child in plan.get("Plans", ()) for scan in _lake_scans(child)]


def test_a_workers_cycle_after_tiering_leaves_estimates_within_twice_the_truth(tiered: Spanning) -> None:
    assert _statistics(tiered).known_rows == _statistics(tiered).rows == 3599
    for condition in CONDITIONS:
        told = tiered.query(f"explain (analyze, format json) select * from events where {condition}")[0][0]
        (scan,) = _lake_scans(told[0]["Plan"])
        assert scan["Actual Rows"] / 2 <= scan["Plan Rows"] <= scan["Actual Rows"] * 2, (condition, json.dumps(scan))
    # So a join with much of the lake is no loop over it.
    tiered.seam.execute(
        "create temporary table kinds as select i as v, 'kind ' || i as kind from generate_series(0, 99) i; "
        "analyze kinds"
    )
    joined = (
        "select k.kind, e.id from events e join kinds k using (v) where e.ts >= '2026-02-01' and e.ts < '2026-03-01'"
    )
    told = json.dumps(tiered.query(f"explain (format json) {joined}")[0][0])
    assert '"Hash Join"' in told
    assert len(tiered.query(joined)) == 1120


def test_the_lake_is_analysed_when_it_changed_by_more_than_a_tenth_and_not_before() -> None:
    seen = LakeStatistics(snapshot=1, rows=1000, known_rows=1000, server_version=180_001)
    assert why_not_analyze(seen) == "the planner's count is within a tenth"
    assert why_not_analyze(replace(seen, rows=1050)) is not None
    assert why_not_analyze(replace(seen, rows=1200)) is None
    assert why_not_analyze(replace(seen, rows=800)) is None
    assert why_not_analyze(replace(seen, known_rows=None)) is None
    assert why_not_analyze(replace(seen, snapshot=None)) == "nothing is published yet"
    older = replace(seen, rows=50_000_000, server_version=150_004)
    assert why_not_analyze(older) == "postgres_fdw of this Postgres would read the whole lake for it"
    assert why_not_analyze(replace(older, server_version=160_001)) is None


def test_a_gateway_that_is_away_or_a_lock_that_is_held_keeps_no_cycle_from_going_well(tiered: Spanning) -> None:
    with connect(tiered.dsn, autocommit=True) as conn, connect(tiered.dsn) as other:
        table = find_table(conn, tiered.name)
        lake = sql.Identifier("thermocline_lake", table.object_name)
        other.execute(sql.SQL("comment on foreign table {} is 'locked'").format(lake))
        conn.execute("update pg_class set reltuples = 1 where oid = %s::regclass", [lake.as_string(conn)])
        assert refresh_statistics(conn, table, tiered.settings) is None
        other.rollback()
        conn.execute(
            sql.SQL("alter server thermocline_gateway options (set port {})").format(sql.Literal(str(free_port())))
        )
        with pytest.raises(psycopg.OperationalError, match="could not connect"):
            refresh_statistics(conn, table, tiered.settings)
    _cycle(tiered)
    assert _statistics(tiered).known_rows == 1
