"""explain: says before a statement runs which tiers it touches, why, where its rows go and what it costs; and runs
nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.twin import Spanning
from tests.twin_transaction import spanning_module

from thermocline.core.explain import ExplainedTable, Explanation, render_explanation
from thermocline.errors import NotExplainable
from thermocline.gateway import metrics
from thermocline.gateway.lake_arm.scan_cost import add_lake_costs
from thermocline.ops.inspect.explain import explain
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.postgres_server import PostgresServer

COLD, HOT = "2026-01-20 10:00+00", "2026-04-20 10:00+00"


@pytest.fixture(scope="module")
def tiered(postgres: PostgresServer, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spanning]:
    """Rows 1 to 359 lie in the lake, 360 to 400 in the heap."""
    with spanning_module(postgres, template, tmp_path_factory.mktemp("explain")) as spanning:
        spanning.tier()
        yield spanning


def _said(spanning: Spanning, statement: str) -> Explanation:
    return explain(spanning.dsn, statement, search_path="public_all, public")


def _table(spanning: Spanning, statement: str) -> ExplainedTable:
    (table,) = _said(spanning, statement).tables
    return table


def _state(spanning: Spanning) -> list[tuple[Any, ...]]:
    """Everything an unwanted side effect could touch."""
    return spanning.query(
        "select (select count(*) from public.events), (select count(*) from thermocline_delta.public__events),"
        " (select last_value from thermocline.delta_version), (select t from thermocline.cutline)"
    )


READS = [
    ("select * from events where ts >= '2026-04-02'", "provably hot", "ts >= '2026-04-02", True, False),
    (
        "select * from events where ts = timestamptz '2026-04-20 10:00+00' and v > 3",
        "provably hot",
        "ts = '2026-04-20",
        True,
        False,
    ),
    ("select * from events where ts < '2026-02-01' and id = 5", "provably cold", "ts < '2026-02-01", False, True),
    (
        "select * from events where ts between '2026-01-01' and '2026-01-05'",
        "provably cold",
        "ts <= '2026-01-05",
        False,
        True,
    ),
    ("select * from events where id = 5", "may touch both", None, True, True),
    ("select * from events where ts < '2026-01-05' or ts > '2026-04-05'", "may touch both", None, True, True),
    (
        "select * from events where not (ts < '2026-04-02') and ts is not null",
        "provably hot",
        "ts >= '2026-04-02",
        True,
        False,
    ),
    (
        "with x as (select * from events where ts > '2026-04-02') select count(*) from x",
        "provably hot",
        "ts > '2026-04-02",
        True,
        False,
    ),
    (
        "copy (select note || ')' from events where ts < '2026-01-05') to stdout (format csv)",
        "provably cold",
        "ts <",
        False,
        True,
    ),
    ("table events", "may touch both", None, True, True),
]


@pytest.mark.conforms("C-195")
@pytest.mark.parametrize(("statement", "verdict", "deciding", "heap", "lake"), READS)
def test_a_read_is_provably_hot_or_cold_or_may_touch_both(
    tiered: Spanning, statement: str, verdict: str, deciding: str | None, heap: bool, lake: bool
) -> None:
    before = _state(tiered)
    table = _table(tiered, statement)
    assert (table.named, table.mode, table.operation, table.verdict) == ("seam", "tiered", "select", verdict)
    assert (table.deciding or "").startswith(deciding or "")
    assert (table.deciding is None) == (deciding is None)
    assert (table.heap, len(table.questions), table.delta) == (("events_2026_04",) if heap else (), int(lake), lake)
    ((s, t),) = tiered.query("select s, thermocline.key_timestamptz(t)::text from thermocline.cutline")
    assert (table.s, table.t, table.r) == (s, t, None)
    assert _state(tiered) == before


WRITES = [
    ("update events set v = v + 1 where id = 5", "update", "may touch both", ["heap", "heap's spill and delta"]),
    ("update events set v = 1 where ts >= '2026-04-05'", "update", "provably hot", ["heap"]),
    ("delete from events where ts < '2026-01-05'", "delete", "provably cold", ["delta"]),
    (
        "with gone as (delete from events where ts < '2026-01-05' returning *) select * from gone",
        "delete",
        "provably cold",
        ["delta"],
    ),
    ("insert into events select * from events", "insert", "may touch both", ["heap", "heap's spill and delta"]),
    (
        "copy events (id, ts, v) from stdin with (format csv)",
        "insert",
        "may touch both",
        ["heap", "heap's spill and delta"],
    ),
    (
        f"insert into public.events values (1, '{COLD}', 3) on conflict (id, ts) do nothing",
        "insert",
        "provably cold",
        ["heap's spill and delta"],
    ),
]


@pytest.mark.conforms("C-195")
@pytest.mark.parametrize(("statement", "operation", "verdict", "paths"), WRITES)
def test_a_write_names_the_path_of_each_tier_and_runs_nothing(
    tiered: Spanning, statement: str, operation: str, verdict: str, paths: list[str]
) -> None:
    before = _state(tiered)
    table = _table(tiered, statement)
    assert (table.operation, table.verdict) == (operation, verdict)
    assert [path.path for path in table.paths] == paths
    assert _state(tiered) == before
    tiered.assert_same_rows()


@pytest.mark.conforms("C-195")
def test_literal_rows_of_an_insert_are_counted_by_where_they_would_go(tiered: Spanning) -> None:
    rows = (
        f"(1, '{COLD}', 3), (2, timestamptz '{HOT}', 4), (3, now(), 5), (4, now(), 6), (5, default, 7), (6, "
        f"('{COLD}'), length(')'))"
    )
    for target in (
        "events (id, ts, v)",
        "public.events (id, ts, v)",
        'public_all."events" as e ("id", "ts", v) overriding user value',
    ):
        statement = f"insert into {target} /* rows ( */ values {rows} -- (7)\n returning *"
        counted = _table(tiered, statement).rows
        assert counted is not None
        assert (counted.recent, counted.historical, counted.expired, counted.unknown) == (1, 2, 0, 3), target
    whole = _table(tiered, f"insert into events values (1, '{HOT}', 3, 'x'), (2, '{HOT}', 3, $$it's ($$)")
    assert (whole.verdict, whole.deciding, whole.rows and whole.rows.recent) == ("provably hot", "the literal rows", 2)


@pytest.mark.conforms("C-195")
def test_the_reason_of_a_refusal_is_told(tiered: Spanning) -> None:
    assert (
        _said(
            tiered, f"insert into events (id, ts, v) values (1, '{COLD}', 3) on conflict (id, ts) do nothing"
        ).sqlstate
        == "42P10"
    )
    untargeted = _table(tiered, f"insert into events (id, ts, v) values (1, '{COLD}', 3) on conflict do nothing")
    assert untargeted.refusal is not None
    assert "ON CONFLICT does not work on the seam" in untargeted.refusal
    copied = _table(tiered, "copy events to stdout")
    assert (copied.verdict, copied.paths) == ("refused", ())
    assert copied.refusal is not None
    assert "COPY (SELECT * FROM public_all.events) TO" in copied.refusal
    assert "TABLESAMPLE" in str(_said(tiered, "select * from events tablesample system (1)").refusal)
    assert _said(tiered, "select nothing from events").refusal == 'column "nothing" does not exist'
    for text in (
        "select 1; delete from events",
        "truncate events",
        "create table x (a int)",
        "selec 1",
        "",
        "analyze events",
        "select ((",
    ):
        with pytest.raises(NotExplainable):
            _said(tiered, text)


def test_a_row_below_the_retention_line_is_counted_as_expired(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(lake_retention="30d")
    spanning.query(
        "update thermocline.cutline set seam_line = 9e15, t = 1775001600000000, r = 1772323200000000 returning 1"
    )
    table = _table(
        spanning, f"insert into events (id, ts, v) values (1, '{COLD}', 3), (2, '{HOT}', 4), (3, '2026-03-20', 5)"
    )
    assert table.rows is not None
    assert (table.rows.recent, table.rows.historical, table.rows.expired) == (1, 1, 1)
    assert table.refusal is not None
    assert "below the retention line 2026-03-01 00:00:00+00 of public.events" in table.refusal


@pytest.mark.conforms("C-195")
def test_planning_cannot_have_side_effects(tiered: Spanning) -> None:
    tiered.seam.execute(
        "create or replace function public.liar() returns integer language plpgsql immutable as"
        " $$begin perform nextval('thermocline.delta_version'); return 1; end$$"
    )
    before = _state(tiered)
    assert _said(tiered, "select * from events where v = liar()").sqlstate == "25006"
    with tiered.session() as session:
        session.execute("select thermocline.explain('update events set v = 0 where id < 100')").fetchall()
        assert session.execute(
            "select pg_current_xact_id_if_assigned() is null, current_setting('transaction_read_only')"
        ).fetchall() == [(True, "off")]
        session.execute("insert into events (id, ts, v) values (7777, '2026-04-20', 1)")
        assert session.execute(
            "select count(*) from pg_locks where pid = pg_backend_pid() and mode = 'RowExclusiveLock'"
        ).fetchone() != (0,)
        session.rollback()
    assert _state(tiered)[0][0] == before[0][0]
    tiered.seam.execute("drop function public.liar()")


@pytest.mark.conforms("C-038")
def test_the_heaps_own_name_means_the_heap_whatever_the_search_path(tiered: Spanning) -> None:
    heap, seam = _said(tiered, "select count(*) from events e join public.events p using (id)").tables
    assert (heap.named, heap.verdict, heap.questions) == ("heap", "heap alone", ())
    assert "names the heap alone" in heap.warnings[0]
    assert (seam.named, len(seam.questions)) == ("seam", 1)
    alone = _table(tiered, "update public.events set v = 1")
    assert (alone.named, alone.operation, [path.side for path in alone.paths]) == ("heap", "update", ["recent"])


@pytest.mark.conforms("C-196")
@pytest.mark.parametrize(
    "statement",
    [
        "select * from events where ts < '2026-02-01'",
        "select v from events where id = 17",
        "select * from events where ts = '2026-01-05 06:00+00' and id = 17",
        "select * from events where ts >= '2026-03-05' and note > 'a'",
        "select e.v from events e join events x on x.id = e.id + 1 where e.ts < '2026-02-01' and x.ts < '2026-03-01'",
        "select * from events where ts > '2026-04-10'",
    ],
)
def test_the_cost_is_what_the_gateway_then_reads(tiered: Spanning, statement: str) -> None:
    report = add_lake_costs(tiered.dsn, _said(tiered, statement))
    (table,) = report.tables
    counters = (metrics.FILES_SCANNED, metrics.FILES_SKIPPED, metrics.BYTES_READ)
    before = [counter._value.get() for counter in counters]
    tiered.query(statement)
    read = tuple(counter._value.get() - was for counter, was in zip(counters, before, strict=True))
    if table.cost is None:
        assert (table.verdict, read) == ("provably hot", (0, 0, 0))
    else:
        assert (table.cost.files, table.cost.files_skipped, table.cost.bytes) == read
        assert table.cost.requests == 2 * table.cost.files
    assert any(line.startswith("  lake: ") for line in render_explanation(report)) == (table.cost is not None)


def test_keep_heap_reads_no_partition_below_the_line_through_the_seam(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    table = _table(spanning, "select * from events")
    assert (table.mode, table.heap, table.verdict) == ("tiered keep-heap", ("events_2026_04",), "may touch both")
    heap = _table(spanning, "select * from public.events")
    assert (heap.verdict, len(heap.heap), heap.warnings) == ("heap alone", 4, ())
    assert {path.path for path in _table(spanning, "update events set v = 1").paths} == {"heap", "heap and delta"}


@pytest.mark.parametrize(
    ("kind", "floor", "below", "above"),
    [
        ("smallint", "100", "k < 100::smallint", "k >= 100"),
        ("integer", "100", "k = -5", "k > 99"),
        ("bigint", "100", "k <= 99", "k = 5000000000"),
        ("date", "'2026-01-01'", "k < '2026-01-01'", "k >= date '2026-01-01'"),
        ("timestamp", "'2026-01-01'", "k < '2026-01-01'", "k > '2025-12-31 23:59:59.999999'"),
    ],
)
def test_every_kind_of_tier_key_is_judged(
    make_spanning: Callable[..., Spanning], kind: str, floor: str, below: str, above: str
) -> None:
    top = {"date": "'2027-01-01'", "timestamp": "'2027-01-01'"}.get(kind, "200")
    spanning = make_spanning(
        table=f'create table {{schema}}.events (id bigint not null, "k" {kind} not null, primary key (id, k))',
        partitions=f"create table public.events_1 partition of public.events for values from ({floor}) to ({top})",
        partition_by="range (k)",
        rows="",
    )
    assert _table(spanning, f"select * from events where {below}").verdict == "provably cold"
    assert _table(spanning, f"select * from events where {above}").verdict == "provably hot"
    counted = _table(spanning, f"insert into events (k, id) values ({floor}, 1)").rows
    assert counted is not None
    assert counted.recent == 1


def test_a_role_hears_of_the_tables_it_has_a_right_on_alone(tiered: Spanning) -> None:
    with closing(connect(tiered.dsn, autocommit=True)) as conn:
        conn.execute("create role explain_reader login password 'secret'")
        try:
            conn.execute("grant usage on schema public_all to explain_reader")
            dsn = make_conninfo(tiered.dsn, user="explain_reader", password="secret")
            assert explain(dsn, "select * from public_all.events").sqlstate == "42501"
            conn.execute("grant select on public_all.events to explain_reader")
            (table,) = explain(dsn, "select * from public_all.events where ts < '2026-01-03'").tables
            assert (table.verdict, len(table.questions)) == ("provably cold", 1)
            assert explain(dsn, "update public_all.events set v = 1").sqlstate == "42501"
        finally:
            conn.execute(sql.SQL("drop owned by explain_reader"))
            conn.execute("drop role explain_reader")


def test_a_statement_with_parameters_is_explained(tiered: Spanning) -> None:
    table = _table(tiered, "select * from events where ts > $1 and id = $2")
    assert table.verdict == "may touch both"
    (costed,) = add_lake_costs(
        tiered.dsn, _said(tiered, "select * from events where ts < $1 and id = $2 and v = any($3)")
    ).tables
    assert costed.cost is not None
    assert costed.cost.files == 3


def test_the_command_and_the_function_say_the_same(tiered: Spanning) -> None:
    statement = "select * from events where ts < '2026-02-01'"
    with tiered.session() as session:
        told = [row[0] for row in session.execute("select thermocline.explain(%s)", [statement])]
    assert render_explanation(_said(tiered, statement)) == told
    command = [
        sys.executable,
        "-m",
        "thermocline",
        "explain",
        "--search-path",
        "public_all, public",
        "--json",
        "--dsn",
        tiered.dsn,
    ]
    (table,) = json.loads(subprocess.run([*command, statement], check=True, capture_output=True).stdout)["tables"]
    assert (table["verdict"], table["cost"]["files"], table["cost"]["requests"]) == ("provably cold", 1, 2)
    refused = subprocess.run([*command, "select 1; select 2"], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "TC702" in refused.stderr


@pytest.mark.conforms("C-045")
def test_for_update_takes_no_locks_on_the_seam_and_lock_rows_does(tiered: Spanning) -> None:
    assert "thermocline.lock_rows()" in _table(tiered, "select * from events where id = 5 for update").warnings[0]
    with tiered.session() as first, tiered.session() as second:
        second.execute("set lock_timeout = 100")
        second.commit()
        for number, tier in ((5, "lake"), (390, "heap")):
            ((moment,),) = first.execute("select ts::text from events where id = %s", [number]).fetchall()
            key = json.dumps({"id": number, "ts": moment})
            first.execute("select * from events where id = %s for update", [number])
            second.execute("update events set v = v where id = %s", [number])
            second.rollback()
            assert first.execute("select thermocline.lock_rows('events', %s)", [key]).fetchall() == [(tier,)]
            with pytest.raises(psycopg.errors.LockNotAvailable):
                second.execute("update events set v = v where id = %s", [number])
            second.rollback()
            first.execute("update events set v = v + 1 where id = %s", [number])
            first.rollback()
            second.execute("update events set v = v where id = %s", [number])
            second.rollback()
        missing = json.dumps([{"id": 5, "ts": "2020-01-01"}, {"id": 1, "ts": "2026-04-20"}])
        assert first.execute("select thermocline.lock_rows('events', %s)", [missing]).fetchall() == [(None,), (None,)]
        first.rollback()


@pytest.mark.conforms("C-100")
def test_delete_takes_a_plain_key_and_the_tier_key_and_demands_all_fields_of_a_composite_one(tiered: Spanning) -> None:
    with tiered.session() as session:
        for number, place in ((8, "delta"), (391, "hot")):
            ((moment,),) = session.execute("select ts::text from events where id = %s", [number]).fetchall()
            call = "select thermocline.delete('events', %s, %s)"
            assert session.execute(call, [json.dumps(number), "2020-01-01"]).fetchall() == [(None,)]
            assert session.execute(call, [json.dumps({"id": number}), moment]).fetchall() == [(place,)]
            assert session.execute(call, [json.dumps(number), moment]).fetchall() == [(None,)]
            assert session.execute("select count(*) from events where id = %s", [number]).fetchall() == [(0,)]
        session.rollback()
        ((there,),) = session.execute("select count(*) from thermocline_delta.public__events where _op = 1").fetchall()
        assert there == 0


@pytest.mark.conforms("C-100")
def test_delete_of_a_composite_key_names_its_fields(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(
        table=(
            "create table {schema}.events (a integer not null, b text not null, k integer not null, primary key "
            "(a, b, k))"
        ),
        partitions="create table public.events_1 partition of public.events for values from (0) to (100)",
        partition_by="range (k)",
        rows="insert into events values (1, 'x', 5), (2, 'y', 6)",
    )
    with spanning.session(autocommit=True) as session:
        with pytest.raises(
            psycopg.errors.InvalidParameterValue,
            match=r"\(a, b, k\): thermocline.delete needs an object with all of them",
        ):
            session.execute("select thermocline.delete('events', '1', '5')")
        with pytest.raises(psycopg.errors.NotNullViolation, match='needs the field "b"'):
            session.execute("""select thermocline.delete('events', '{"a": 1}', '5')""")
        assert session.execute("""select thermocline.delete('events', '{"a": 1, "b": "x"}', '5')""").fetchall() == [
            ("hot",)
        ]
        assert session.execute("select a from events").fetchall() == [(2,)]
