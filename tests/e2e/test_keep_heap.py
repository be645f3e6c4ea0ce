"""Keep-heap: the heap stays complete, the lake follows, and plain statements on either name keep both tiers equal,
TRUNCATE included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.fault_points import patch_fault_points
from tests.twin import Spanning

from thermocline.ops.fold import fold
from thermocline.ops.register.unregistration import unregister
from thermocline.runtime.pg import connect_as_typed as connect

WRITES = (
    (
        "insert into events (id, ts, v) values (9001, '2026-01-10 05:00+00', 1), (9002, '2026-04-02 05:00+00', "
        "1) returning *"
    ),
    "update events set v = v + 1, note = 'w' where id % 5 = 0 returning id, v",
    "delete from events where id % 9 = 0 returning id",
    "update events set ts = ts + interval '1 month' where id in (10, 130, 20) returning id, ts",
    "insert into events (id, ts, v) values (9003, '2025-06-01 00:00+00', 1) returning *",
    "update events set v = 77 where id = 9003 returning *",
)


def _assert_all_equal(spanning: Spanning) -> None:
    """Seam, heap and twin, all three."""
    spanning.assert_same_rows()
    for one, other in (("public.events", "twin.events"), ("twin.events", "public.events")):
        assert spanning.query(f"select * from {one} except all select * from {other}") == []


def _run_on_heap(spanning: Spanning, statement: str) -> None:
    spanning.seam.execute(statement.replace("events", "public.events", 1).encode())
    spanning.twin.execute(statement.encode())


@pytest.mark.conforms("C-002", "C-136", "C-140")
def test_partitions_are_copied_and_never_dropped(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    assert len(spanning.tier().moved) == 3
    again = spanning.tier()
    assert (again.moved, again.dropped, again.deferred) == ([], [], [])
    assert spanning.query("select state, count(*) from thermocline.partitions group by 1 order by 1") == [
        ("hot", 1),
        ("tiered", 3),
    ]
    assert spanning.query("select count(*) from public.events") == [(400,)]
    assert spanning.spark().sql("select count(*) from thermocline.public.events").collect()[0][0] == 359
    _assert_all_equal(spanning)


@pytest.mark.conforms("C-002", "C-137", "C-140")
@pytest.mark.parametrize("on_heap", [False, True], ids=["on the seam", "on the heap's own name"])
def test_plain_statements_on_any_row_keep_both_tiers_equal(
    make_spanning: Callable[..., Spanning], on_heap: bool
) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    for statement in WRITES:
        if on_heap:
            _run_on_heap(spanning, statement)
        else:
            spanning.both(statement)
        _assert_all_equal(spanning)
    spanning.both("insert into events (id, ts, v) values (9100, '2026-05-20 00:00+00', 1)")
    spanning.tier()
    _assert_all_equal(spanning)


@pytest.mark.conforms("C-137")
def test_writes_between_the_steps_of_the_copy_reach_both_tiers(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning = make_spanning(keep_heap=True)
    number = 0

    def write(_point: str) -> None:
        nonlocal number
        for month in (1, 2, 3):
            number += 1
            spanning.both(
                f"insert into events (id, ts, v) values ({5000 + number}, '2026-0{month}-11 00:00+00', 1) returning *"
            )
            spanning.both(f"update events set v = v + 1 where id = {number * 3} returning *")
            spanning.both(f"delete from events where id = {number * 3 + 1} returning id")
        _assert_all_equal(spanning)

    patch_fault_points(monkeypatch, write)
    assert len(spanning.tier().moved) == 3
    _assert_all_equal(spanning)


@pytest.mark.conforms("C-137", "C-140")
def test_after_a_fold_heap_and_lake_are_equal_below_the_cut_line(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    for statement in WRITES:
        spanning.both(statement)
    fold(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark)
    _assert_all_equal(spanning)
    lake = spanning.spark().sql("select count(*), sum(id), sum(v) from thermocline.public.events").collect()[0]
    assert spanning.query("select count(*), sum(id), sum(v) from public.events where ts < '2026-04-01 00:00+00'") == [
        tuple(lake)
    ]
    for statement in WRITES[1:4]:
        spanning.both(statement)
        _assert_all_equal(spanning)


@pytest.mark.conforms("C-138")
@pytest.mark.parametrize(
    "what", ["public.events", "public.events_2026_02", "public.events_2026_01, public.events_2026_04"]
)
def test_truncate_empties_both_tiers_alike(make_spanning: Callable[..., Spanning], what: str) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    spanning.both("update events set v = v + 1 where id % 5 = 0")
    spanning.both(
        "insert into events (id, ts, v) values (9003, '2025-06-01 00:00+00', 1), (9004, '2026-02-03 03:00+00', 1)"
    )
    spanning.seam.execute(f"truncate {what}".encode())
    months = [part[-2:] for part in what.split(", ") if part != "public.events"]
    kept = " and ".join(
        f"not (ts >= '2026-{month}-01 00:00+00' and ts < '2026-{int(month) + 1:02d}-01 00:00+00')" for month in months
    )
    spanning.twin.execute(f"delete from events where not ({kept or 'false'})".encode())
    _assert_all_equal(spanning)
    spanning.both("insert into events (id, ts, v) values (1, '2026-02-10 00:00+00', 8), (2, '2026-01-10 00:00+00', 8)")
    _assert_all_equal(spanning)


@pytest.mark.conforms("C-138")
def test_a_truncate_that_rolls_back_changes_nothing(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    spanning.tier()
    session = spanning.session("public")
    session.execute("truncate public.events")
    session.rollback()
    _assert_all_equal(spanning)


@pytest.mark.conforms("C-139")
def test_unregister_leaves_the_heap_complete_and_without_our_triggers(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(keep_heap=True)
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute("create function public.mine() returns trigger language plpgsql as 'begin return new; end'")
        conn.execute("create trigger mine before update on public.events for each row execute function public.mine()")
    spanning.tier()
    spanning.both("update events set v = v + 1 where id % 5 = 0")
    report = unregister(spanning.dsn, spanning.name, settings=spanning.settings)
    assert report.lake_kept_at is not None
    triggers = (
        "select distinct g.tgname from pg_trigger g join pg_class r on r.oid = g.tgrelid where not "
        "g.tgisinternal and g.tgname !~ 'forbid'"
    )
    assert spanning.query(f"{triggers} and r.relnamespace <> 'thermocline'::regnamespace") == [("mine",)]
    assert spanning.query("select * from public.events except all select * from twin.events") == []
    assert (
        spanning.query("select count(*) from public.events")
        == spanning.twin.execute("select count(*) from events").fetchall()
    )


@pytest.mark.conforms("C-173")
def test_truncate_of_a_tiered_heap_leaves_history_and_says_so(spanning: Spanning) -> None:
    notices: list[str] = []
    spanning.seam.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary or ""))
    reader = spanning.session("public")
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select 1").fetchall()
    spanning.tier()
    spanning.both("update events set v = v + 1 where id % 5 = 0")
    spanning.both(
        "insert into events (id, ts, v) values (9003, '2025-06-01 00:00+00', 1), (9004, '2026-09-03 03:00+00', 1)"
    )
    reader.rollback()
    spanning.seam.execute("truncate public.events")
    spanning.twin.execute("delete from events where ts >= '2026-04-01 00:00+00'")
    assert notices == [
        (
            "TRUNCATE removed the rows of public.events that Postgres holds; the history below 2026-04-01 "
            "00:00:00+00 remains in the lake"
        )
    ]
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id % 4 = 0 returning *")
    spanning.both("insert into events (id, ts, v) values (9005, '2026-06-03 03:00+00', 1)")
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-138", "C-173")
def test_rows_truncated_while_their_partition_is_sealed_do_not_come_back(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def truncate(point: str) -> None:
        if point == "intent":
            spanning.seam.execute("truncate public.events_2026_02")
            spanning.twin.execute("delete from events where ts >= '2026-02-01 00:00+00' and ts < '2026-03-01 00:00+00'")
            spanning.assert_same_rows()

    patch_fault_points(monkeypatch, truncate)
    assert len(spanning.tier().moved) == 3
    spanning.assert_same_rows()


@pytest.mark.conforms("C-138")
def test_rows_truncated_from_the_spill_above_the_line_do_not_come_back_when_the_line_passes(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(premake=0)
    spanning.both("insert into events (id, ts, v) values (9003, '2026-05-10 00:00+00', 1)")
    spanning.seam.execute("truncate public.events")
    spanning.twin.execute("truncate events")
    _create_partition(spanning.seam, "events_2026_06", "2026-06-01", "2026-07-01")
    spanning.both(
        "insert into events (id, ts, v) values (9004, '2026-06-10 00:00+00', 1), (9005, '2026-07-10 00:00+00', 1)"
    )
    assert len(spanning.tier().moved) == 5
    spanning.assert_same_rows()


def _create_partition(conn: psycopg.Connection[Any], name: str, lo: str, hi: str) -> None:
    conn.execute(
        (
            f"create table public.{name} partition of public.events for values from ('{lo} 00:00+00') to ('{hi} "
            "00:00+00')"
        ).encode()
    )


def test_values_whose_bytes_the_lake_does_not_keep_are_changed_through_the_seam(
    make_spanning: Callable[..., Spanning],
) -> None:
    """A slice of an array keeps an empty bitmap of NULLs, and a NaN that was computed has a sign: both read the same as
    without."""
    spanning = make_spanning(
        keep_heap=True,
        table=(
            "create table {schema}.events (id integer, ts timestamptz, f float8, a integer[], v integer, primary "
            "key (id, ts))"
        ),
        rows="insert into events select i, '2026-01-01 00:00+00'::timestamptz + i * interval '12 hours', "
        "'inf'::float8 - 'inf'::float8,"
        " (array[i, null])[1:1], i from generate_series(1, 200) i",
    )
    spanning.tier()
    for setting in ("extra_float_digits = -15", "datestyle = 'SQL, DMY'"):
        spanning.seam.execute(f"set {setting}".encode())
    spanning.both("update events set v = 0 where id in (3, 190) returning id, a, v")
    spanning.both("delete from events where id in (4, 191) returning id")
    spanning.assert_same_rows()
