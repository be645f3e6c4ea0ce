"""`alter` and `stop` while a cycle runs: what cannot be undone is decided by the settings that hold when it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from tests.fault_points import patch_fault_points
from tests.twin import Spanning

from thermocline.core.modes.table_settings import RequestedSettings
from thermocline.ops.admin.alter_table import alter
from thermocline.ops.admin.start_stop import stop

OLD_ROW = "insert into events (id, ts, v) values (9001, '2026-01-20 00:00+00', 1)"


def change(spanning: Spanning, **requested: Any) -> None:
    alter(spanning.dsn, spanning.name, RequestedSettings(**requested), settings=spanning.settings)


def once(act: Callable[[], object]) -> Callable[[], None]:
    """The act, at the first call only."""
    left = [act]

    def call() -> None:
        if left:
            left.pop()()

    return call


def before_the_line_is_raised(spanning: Spanning, act: Callable[[], object]) -> Callable[[], SparkSession]:
    """Where the cycle gets Spark from, which it needs first to look at the lake whose rows expire."""
    do = once(act)

    def session() -> SparkSession:
        do()
        return spanning.spark()

    return session


def at(monkeypatch: pytest.MonkeyPatch, point: str, act: Callable[[], object]) -> None:
    do = once(act)
    patch_fault_points(monkeypatch, lambda reached: do() if reached == point else None)


@pytest.mark.conforms("C-117", "C-222")
@pytest.mark.parametrize("retention", ["none", "400d"])
def test_a_retention_that_ends_or_grows_before_the_line_is_raised_expires_nothing(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch, retention: str
) -> None:
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    at(monkeypatch, "retain-line-raised", lambda: spanning.both(OLD_ROW))
    session = before_the_line_is_raised(spanning, lambda: change(spanning, lake_retention=retention))
    report = spanning.tier(spark=session)
    assert report.retention_line is None
    assert any("lake retention of public.events was changed while this cycle ran" in said for said in report.deferred)
    spanning.assert_same_rows()
    spanning.both(OLD_ROW.replace("9001", "9002"))
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-117", "C-222")
def test_a_line_that_a_failed_pass_raised_hides_no_row_that_a_longer_retention_keeps(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line does not go back, so that writes below it stay refused; the rows that are there stay."""
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    spanning.both("update events set v = v + 1 where id % 5 = 0")

    def fail(reached: str) -> None:
        if reached == "retain-line-raised":
            raise psycopg.errors.QueryCanceled("the pass fails here")

    patch_fault_points(monkeypatch, fail)
    with pytest.raises(psycopg.errors.QueryCanceled):
        spanning.tier()
    patch_fault_points(monkeypatch, lambda _: None)
    change(spanning, lake_retention="55d")
    assert spanning.tier().retention_line == "2026-02-01 00:00:00+00"
    spanning.twin.execute("delete from events where ts < '2026-02-01 00:00+00'")
    spanning.assert_same_rows()
    with pytest.raises(psycopg.errors.CheckViolation, match="lies below the retention line 2026-03-01"):
        spanning.seam.execute(OLD_ROW.replace("2026-01", "2026-02").encode())


@pytest.mark.conforms("C-117")
def test_a_capture_without_the_check_of_the_line_is_made_again_before_the_line_is_raised(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    held = spanning.query("select lake_retention from thermocline.tables")[0]
    spanning.seam.execute("update thermocline.tables set lake_retention = null")
    spanning.seam.execute("select thermocline.apply_functions(id) from thermocline.tables")
    spanning.seam.execute("update thermocline.tables set lake_retention = %s", held)
    refused: list[str | None] = []

    def write() -> None:
        with pytest.raises(psycopg.errors.CheckViolation) as problem:
            spanning.seam.execute(OLD_ROW.encode())
        refused.append(problem.value.sqlstate)

    at(monkeypatch, "retain-line-raised", write)
    assert spanning.tier().retention_line == "2026-03-01 00:00:00+00"
    assert refused == ["23514"]
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-221")
def test_a_stop_during_a_cycle_drops_no_further_partition_and_expires_nothing(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning = make_spanning(reclaim_lag="10d", lake_retention="1d")
    spanning.tier()
    spanning.age_moves(10)
    at(monkeypatch, "dropped", lambda: stop(spanning.dsn, spanning.name))
    report = spanning.tier(by_itself=True)
    assert (report.dropped, report.retention_line) == (["public.events_2026_01"], None)
    said = "public.events was stopped while this cycle ran: nothing more leaves the heap or the lake by itself"
    assert said in report.deferred
    spanning.assert_same_rows()
    assert len(spanning.tier().dropped) == 2, "by hand the rest is dropped"


@pytest.mark.conforms("C-221")
def test_a_stop_before_the_line_is_raised_expires_nothing(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    session = before_the_line_is_raised(spanning, lambda: stop(spanning.dsn, spanning.name))
    assert spanning.tier(by_itself=True, spark=session).retention_line is None
    spanning.assert_same_rows()
    assert spanning.tier().retention_line == "2026-03-01 00:00:00+00"


@pytest.mark.conforms("C-222")
def test_a_reclaim_lag_that_grows_during_a_cycle_keeps_the_partitions(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning = make_spanning(reclaim_lag="10d")
    spanning.tier()
    spanning.age_moves(10)
    at(monkeypatch, "dropped", lambda: change(spanning, reclaim_lag="30d"))
    report = spanning.tier()
    assert report.dropped == ["public.events_2026_01"]
    said = "the reclaim lag of public.events was changed while this cycle ran: the next cycle decides what is dropped"
    assert said in report.deferred
    assert spanning.tier().dropped == []
    spanning.assert_same_rows()
