"""A query that is provably hot opens no connection to the gateway, whether its bound is known at planning or only at
run time; estimates and costs of the lake arm; keys that cannot be hashed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.e2e.gateway_queries import count_gateway_queries
from tests.twin import Spanning

from thermocline.gateway import metrics
from thermocline.runtime.pg import connect_as_typed as connect

CONNECTED = "select count(*) from postgres_fdw_get_connections()"
YEARS = """
create table public.events_2026 partition of public.events
    for values from ('2026-01-01 00:00+00') to ('2026-05-01 00:00+00');
create table public.events_now partition of public.events
    for values from ('2026-05-01 00:00+00') to ('2100-01-01 00:00+00');
"""
RECENT = """
insert into events (id, ts, v)
select i, '2026-01-01 00:00+00'::timestamptz + i * interval '6 hours', i from generate_series(1, 400) i
union all
select i, date_trunc('day', now()) - (i - 1000) * interval '1 hour', i from generate_series(1001, 1040) i
"""
HOT = [
    "ts >= now() - interval '1 day'",
    "ts > current_date - 3",
    "ts >= statement_timestamp() - interval '50 hours' and v > 1010",
    "ts between now() - interval '30 days' and now()",
    "id = 1005 and ts >= now() - interval '60 days'",
    "ts >= '2026-05-01 00:00+00'",
    "ts >= date_trunc('day', now()) - interval '2 days'",
]
BITS = {
    "table": "create table {schema}.events (ts date, b bit(16), v integer, primary key (ts, b))",
    "partitions": "create table public.events_1 partition of public.events for values from ('2026-01-01') to "
    "('2026-02-01');create table public.events_2 partition of public.events for values from ('2026-02-01') to "
    "('2026-03-01')",
    "rows": "insert into events select date '2026-01-01' + i % 50, i::bit(16), i from generate_series(1, 500) i",
}


@pytest.fixture
def tiered(make_spanning: Callable[..., Spanning]) -> Spanning:
    """Months until April in the lake, rows of the last days in the heap."""
    spanning = make_spanning(partitions=YEARS, rows=RECENT)
    spanning.tier()
    return spanning


def _connections(session: psycopg.Connection[Any], statement: str) -> int:
    """Connections to the gateway that a session has after one statement."""
    session.execute("select postgres_fdw_disconnect_all()")
    session.execute(statement.encode()).fetchall()
    row = session.execute(CONNECTED).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.conforms("C-226")
def test_a_hot_query_opens_no_connection_to_the_gateway_whatever_its_bound_is(tiered: Spanning) -> None:
    assert _connections(tiered.seam, "select count(*) from events") == 1
    asked = count_gateway_queries()
    for condition in HOT:
        statement = f"select id, ts, v from events where {condition}"
        assert _connections(tiered.seam, statement) == 0, condition
        assert tiered.both(statement), condition
    for exclusion in ("off", "partition"):
        tiered.seam.execute(f"set constraint_exclusion = {exclusion}".encode())
        assert _connections(tiered.seam, f"select * from events where {HOT[0]}") == 0
        assert _connections(tiered.seam, "select * from events where ts >= '2026-05-01 00:00+00'") == 0
    tiered.seam.execute("reset constraint_exclusion")
    tiered.seam.execute("set plan_cache_mode = force_generic_plan")
    tiered.seam.execute("prepare hot (timestamptz) as select count(*), sum(v) from events where ts >= $1")
    assert _connections(tiered.seam, "execute hot (now() - interval '1 day')") == 0
    assert count_gateway_queries() == asked
    assert _connections(tiered.seam, "execute hot ('2026-02-01')") == 1
    assert tiered.seam.execute("execute hot ('2026-02-01')").fetchall() == tiered.both(
        "select count(*), sum(v) from events where ts >= '2026-02-01'"
    )


def test_a_bound_from_a_subquery_reads_no_file(tiered: Spanning) -> None:
    before = metrics.FILES_SCANNED._value.get()
    tiered.both("select id, ts from events where ts >= (select max(ts) - interval '1 day' from public.events)")
    tiered.both("select e.id from (values (now() - interval '1 day')) b(low) join events e on e.ts >= b.low")
    assert metrics.FILES_SCANNED._value.get() == before
    tiered.both("select id, ts from events where ts >= (select min(ts) from public.events)")


RANGES = """
create table public.hot_ranges as
    select date_trunc('day', now()) - i * interval '1 hour' as low, now() as high from generate_series(1, 4) i;
create table public.empty_ranges as
    values ('2020-01-01Z'::timestamptz, '2020-02-01Z'::timestamptz), ('2025-12-01Z', '2025-12-31Z');
alter table public.empty_ranges rename column1 to low;
alter table public.empty_ranges rename column2 to high;
create table public.january as select '2026-01-13Z'::timestamptz as low, '2026-01-14Z'::timestamptz as high;
grant select on public.hot_ranges, public.empty_ranges, public.january to public;
"""
LATERAL = """
select x.id, x.v from public.{ranges} r
 cross join lateral (select * from events e where e.ts >= r.low and e.ts < r.high offset 0) x
"""
SUBQUERIES = """
select id, v from events
 where ts >= (select min(low) from public.{ranges}) and ts < (select max(high) from public.{ranges})
"""
NESTED_LOOP = "set enable_hashjoin = off; set enable_mergejoin = off"


@pytest.mark.conforms("C-226")
@pytest.mark.parametrize("statement", [LATERAL, SUBQUERIES], ids=["a row of the outer table", "a subquery"])
@pytest.mark.parametrize(("ranges", "files"), [("hot_ranges", 0), ("empty_ranges", 0), ("january", 1)])
def test_a_bound_that_the_executor_finds_reads_only_files_within_it(
    tiered: Spanning, statement: str, ranges: str, files: int
) -> None:
    """Postgres has opened its connection before it knows the bound; then it does not ask, or the gateway prunes."""
    tiered.seam.execute(RANGES.encode())
    tiered.seam.execute(NESTED_LOOP.encode())
    before = metrics.FILES_SCANNED._value.get()
    assert _connections(tiered.seam, statement.format(ranges=ranges)) == 1
    assert metrics.FILES_SCANNED._value.get() - before == files
    assert bool(tiered.both(statement.format(ranges=ranges))) == (ranges != "empty_ranges")


@pytest.mark.conforms("C-226")
def test_a_generic_plan_reads_only_files_that_its_parameters_leave(tiered: Spanning) -> None:
    tiered.seam.execute("set plan_cache_mode = force_generic_plan")
    tiered.seam.execute("prepare look (timestamptz, bigint) as select id, v from events where ts >= $1 and id = $2")
    for values, connections, files in (
        ("now() - interval '1 day', 1003", 0, 0),
        ("'2026-05-01 00:00+00', 1003", 0, 0),
        ("'2026-04-15 00:00+00', 1003", 1, 0),
        ("'2026-04-01 00:00+00', 380", 1, 1),
    ):
        before = metrics.FILES_SCANNED._value.get()
        assert _connections(tiered.seam, f"execute look ({values})") == connections, values
        assert metrics.FILES_SCANNED._value.get() - before <= files, values
        low, key = values.split(", ")
        assert tiered.seam.execute(f"execute look ({values})".encode()).fetchall() == tiered.both(
            f"select id, v from events where ts >= {low} and id = {key}"
        )


def test_a_nested_loop_over_the_seam_reads_each_file_once_whatever_its_outer_rows(tiered: Spanning) -> None:
    """postgres_fdw sends values of an outer table only with use_remote_estimate, which stays off: docs/limits.md."""
    tiered.seam.execute(RANGES.encode())
    tiered.seam.execute(NESTED_LOOP.encode())
    join = "select e.id, e.v from public.hot_ranges r join events e on e.ts >= r.low and e.ts < r.high"
    before = metrics.FILES_SCANNED._value.get()
    _connections(tiered.seam, join)
    assert metrics.FILES_SCANNED._value.get() - before <= 4
    assert tiered.both(join)


def test_pruning_that_is_switched_off_changes_no_answer(tiered: Spanning) -> None:
    tiered.seam.execute("set enable_partition_pruning = off; set constraint_exclusion = off")
    for condition in (*HOT, "ts < '2026-03-01'", "true"):
        tiered.both(f"select id, ts, v from events where {condition}")
    tiered.assert_same_rows()


def test_a_reader_with_an_older_snapshot_keeps_its_rows_when_the_line_is_raised(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning()
    old = spanning.session()
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    spanning.tier()
    spanning.both("update events set v = v + 1 where id < 300")
    assert old.execute("select count(*), sum(v) from events").fetchall() == [(400, sum(range(1, 401)))]
    assert old.execute("select count(*) from events where ts >= now() - interval '90 years'").fetchall() == [(400,)]
    old.rollback()
    spanning.assert_same_rows()


def test_nobody_writes_to_the_tables_of_the_lake_arm(tiered: Spanning) -> None:
    (owner,) = tiered.query("select tableowner from pg_tables where schemaname = 'thermocline_lake' limit 1")[0]
    with connect(tiered.dsn) as conn:
        conn.execute("create role somebody; grant usage on schema thermocline_lake to somebody; set role somebody")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("insert into thermocline_lake.none_1 default values")
    held = tiered.query(
        "select privilege_type from information_schema.role_table_grants where table_schema = 'thermocline_lake'"
        " and table_name in ('range_1', 'none_1') and privilege_type in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')"
    )
    assert held == [], owner


def _plan(spanning: Spanning, statement: str) -> dict[str, Any]:
    told = spanning.query(f"explain (analyze, format json) {statement}")[0][0]
    plan: dict[str, Any] = told[0]["Plan"]
    return plan


def _lake_arm(plan: dict[str, Any]) -> dict[str, Any]:
    """The join that hides corrected rows of the lake."""
    found = [node for node in _nodes(plan) if "tableoid" in node.get("Join Filter", "")]
    assert len(found) == 1, json.dumps(plan)
    return found[0]


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in _nodes(child))]


@pytest.mark.parametrize("pending", [0, 40])
def test_estimates_of_the_lake_arm_are_within_twice_the_truth_and_look_ups_cost_what_they_fetch(
    tiered: Spanning, pending: int
) -> None:
    tiered.both(f"update events set note = 'changed' where id <= {pending}")
    lake = tiered.query("select object_name from thermocline.tables")[0][0]
    tiered.seam.execute(f"analyze thermocline_lake.{lake}; analyze thermocline_delta.{lake}".encode())
    for condition in ("true", "ts < '2026-02-01'", "ts >= '2026-02-01' and ts < '2026-03-01'", "v < 200"):
        arm = _lake_arm(_plan(tiered, f"select * from events where {condition}"))
        assert arm["Actual Rows"] / 2 <= arm["Plan Rows"] <= arm["Actual Rows"] * 2, (condition, arm)
    look_up = _lake_arm(_plan(tiered, "select * from events where id = 77"))
    (scan,) = (node for node in _nodes(look_up) if node["Node Type"] == "Foreign Scan")
    assert look_up["Total Cost"] - scan["Total Cost"] < 100
    assert scan["Plan Rows"] == 1


def test_keys_that_cannot_be_hashed_hide_corrected_rows_and_no_others(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(partition_by="range (ts)", **BITS)
    spanning.tier()
    spanning.both("update events set v = v + 1 where v % 7 = 0 and ts < '2026-02-01'")
    spanning.both("delete from events where v % 11 = 0 and ts < '2026-02-01'")
    spanning.assert_same_rows()
    spanning.both("select count(*), sum(v) from events")
    spanning.fold()
    spanning.both("select count(*), sum(v) from events")
    spanning.assert_same_rows()
