"""A query that is provably cold touches no partition of the heap; and no reader, however old its snapshot, loses a row
by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.e2e.gateway_queries import count_gateway_queries
from tests.twin import Spanning

from thermocline.errors import LockNotGranted

LINES = "select t, seam_line, seam_floor from thermocline.cutline"
HEAP_READS = """
select coalesce(sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)), 0)
  from pg_stat_xact_user_tables where relid in (select relid from pg_partition_tree('public.events'))
"""
COLD = [
    "select count(*), sum(v) from events where ts < '2026-03-15'",
    "select * from events where ts >= '2026-01-10' and ts < '2026-01-20'",
    "select * from events where id = 17 and ts = '2026-01-05 06:00+00'",
    "select count(*) from events where ts < '2026-04-01 00:00+00'",
]
INTEGERS = {
    "table": (
        "create table {schema}.events (id integer not null, ts smallint not null, v integer, primary key (id, ts))"
    ),
    "partitions": "create table public.events_1 partition of public.events for values from (0) to (10);"
    "create table public.events_2 partition of public.events for values from (10) to (20);",
    "rows": "insert into events select i, i % 20, i from generate_series(1, 100) i",
}


def _reads_of(conn: psycopg.Connection[Any], statement: str, params: tuple[Any, ...] = ()) -> int:
    """Scans of the heap and its partitions that one statement began."""
    with conn.transaction():
        before = conn.execute(HEAP_READS.encode()).fetchone()
        conn.execute(statement.encode(), params or None).fetchall()
        after = conn.execute(HEAP_READS.encode()).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0] - before[0])


@pytest.mark.conforms("C-074")
@pytest.mark.parametrize("keep_heap", [False, True], ids=["tiered", "keep-heap"])
def test_a_condition_that_proves_one_side_leaves_the_other_alone(
    make_spanning: Callable[..., Spanning], keep_heap: bool
) -> None:
    spanning = make_spanning(keep_heap=keep_heap)
    spanning.tier()
    ((t, line, floor),) = spanning.query(LINES)
    assert t == line == floor
    for statement in COLD:
        spanning.both(statement)
        assert _reads_of(spanning.seam, statement) == 0, statement
    bounded = "select count(*) from events where ts < %s::timestamptz"
    for day in range(1, 13):
        params = (f"2026-02-{day:02d}",)
        assert _reads_of(spanning.seam, bounded, params) == 0
        assert (
            spanning.seam.execute(bounded, params, prepare=True).fetchall()
            == spanning.twin.execute(bounded, params).fetchall()
        )
    before = count_gateway_queries()
    assert _reads_of(spanning.seam, "select count(*) from events where ts >= '2026-04-01 00:00+00'") > 0
    assert _reads_of(spanning.seam, "select count(*) from events where ts >= %s::timestamptz", ("2026-04-02",)) > 0
    assert count_gateway_queries() == before
    assert _reads_of(spanning.seam, "select count(*) from events where ts < '2026-04-01 00:00:00.000001+00'") > 0
    told = [
        line
        for (line,) in spanning.query(
            "select thermocline.explain('select * from events where ts < ''2026-02-01 00:00+00''')"
        )
    ]
    assert told[1].strip().startswith("provably cold: ts < '2026-02-01")
    assert told[3].strip().startswith("heap: not read; spill: not read; lake: asked")
    if not keep_heap:
        _look_with_a_plan_kept_for_any_parameter(spanning)


def _look_with_a_plan_kept_for_any_parameter(spanning: Spanning) -> None:
    """What such a plan proves is known only when it runs: partitions go then, and of the spill's index one path is
    walked."""
    session = spanning.session(autocommit=True)
    session.execute(
        "set plan_cache_mode = force_generic_plan; prepare cold (timestamptz) as select count(*) from events "
        "where ts < $1"
    )
    plan = "\n".join(
        line for (line,) in session.execute("explain (analyze, costs off, timing off) execute cold ('2026-02-01')")
    )
    assert "Seq Scan on events" not in plan
    assert "Index" in plan
    told = session.execute("execute cold ('2026-02-01')").fetchall()
    assert told == spanning.both("select count(*) from events where ts < '2026-02-01'")


def test_integer_keys_of_any_width_prove_it_too(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(partition_by="range (ts)", **INTEGERS)
    spanning.tier()
    assert spanning.query(LINES) == [(10, 10, 10)]
    for bound in ("9", "9::bigint", "9::smallint"):
        assert _reads_of(spanning.seam, f"select * from events where ts <= {bound}") == 0
    spanning.both("select * from events where ts <= 9")
    spanning.both("select * from events where ts <= 10")


def test_a_reader_from_before_the_move_loses_nothing_and_delays_the_floor_alone(spanning: Spanning) -> None:
    """Its T is the old one: a floor at the new T would hide the rows that it reads from the heap."""
    old = spanning.session()
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    spanning.tier()
    ((t, line, floor),) = spanning.query(LINES)
    assert floor < t == line
    spanning.both("update events set v = v + 1 where id between 1 and 50")
    rows = old.execute("select count(*), sum(v) from events").fetchall()
    assert rows == [(400, sum(range(1, 401)))]
    spanning.tier()
    assert spanning.query(LINES) == [(t, line, floor)]
    assert old.execute("select count(*), sum(v) from events").fetchall() == rows
    old.rollback()
    spanning.tier()
    assert spanning.query(LINES) == [(t, line, t)]
    spanning.assert_same_rows()


def test_a_reader_that_holds_the_view_keeps_the_floor_where_it_is_and_stops_nothing(spanning: Spanning) -> None:
    held = spanning.session()
    spanning.settings = spanning.settings.model_copy(update={"lock_timeout_ms": 50})
    held.execute("select count(*) from events where ts >= '2026-04-10'")
    with pytest.raises(LockNotGranted):
        spanning.tier()
    held.rollback()
    held.execute("set transaction isolation level repeatable read")
    held.execute("select 1")
    spanning.tier()
    held.rollback()
    held.execute("select count(*) from events where ts >= '2026-04-10'")  # holds the view, and no snapshot
    ((t, _, floor),) = spanning.query(LINES)
    spanning.tier()
    assert spanning.query(LINES)[0][2] == floor < t
    held.rollback()
    spanning.tier()
    assert spanning.query(LINES)[0][2] == t
    spanning.assert_same_rows()


def test_an_alter_of_an_older_snapshot_does_not_put_older_literals_into_the_view(spanning: Spanning) -> None:
    """The view would be built with the line the transaction sees, below the T that others see: their rows between would
    be gone."""
    late = spanning.session("public")
    late.execute("set transaction isolation level repeatable read")
    late.execute("select 1")
    spanning.tier()
    with pytest.raises(psycopg.errors.SerializationFailure):
        late.execute("alter table public.events add column late integer")
    late.rollback()
    spanning.assert_same_rows()
    spanning.alter("add column late integer default 3")
    spanning.assert_same_rows()
    assert [line for _, line, _ in spanning.query(LINES)] == [t for t, _, _ in spanning.query(LINES)]
