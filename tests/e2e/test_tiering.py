"""Tiering against writers in flight, old readers, locks and odd grids: no row lost, doubled or torn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.fault_points import patch_fault_points
from tests.twin import Spanning, assert_same_rows

from thermocline.core.axis import AXIS_MIN
from thermocline.errors import AnotherWriter, ForeignLakeCommit, LockNotGranted
from thermocline.ops.spanning_table import read_spanning
from thermocline.ops.tier.observe_table import observe
from thermocline.ops.verify.repair import check_repairable, repair
from thermocline.ops.verify.verify_table import verify
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.seam.heap.partitions import apply_seal


@pytest.mark.conforms("C-051", "C-052", "C-053", "C-055", "C-059")
def test_one_cycle_is_one_lake_commit_stamped_with_its_operation(spanning: Spanning) -> None:
    report = spanning.tier()
    spark = spanning.spark()
    snapshots = spark.sql("select snapshot_id, operation, summary from thermocline.public.events.snapshots").collect()
    assert len(snapshots) == 1
    summary = snapshots[0].summary
    assert summary["thermocline.op-id"] == report.op_id
    assert summary["thermocline.kind"] == "tier"
    journaled = spanning.query(
        "select op_id::text, phase, result_snapshot, (counters ->> 'rows')::int from thermocline.op_log"
    )
    assert journaled == [(report.op_id, "published", snapshots[0].snapshot_id, 359)]
    assert summary["thermocline.t"] == str(spanning.query("select t from thermocline.cutline")[0][0])
    assert spanning.query("select s from thermocline.cutline") == [(snapshots[0].snapshot_id,)]
    assert spanning.query("select count(*) from thermocline.staged_files") == [(0,)]
    again = spanning.tier()
    assert not again.moved
    assert spark.sql("select count(*) from thermocline.public.events.snapshots").collect()[0][0] == 1


@pytest.mark.conforms("C-220")
def test_the_lake_alone_holds_exactly_the_rows_below_the_cut_line(spanning: Spanning) -> None:
    spanning.tier()
    lake = (
        spanning.spark()
        .sql("select count(*), sum(v), sum(id), sum(amount), count(note) from thermocline.public.events")
        .collect()[0]
    )
    (expected,) = spanning.twin.execute(
        "select count(*), sum(v), sum(id), sum(amount), count(note) from events where ts < '2026-04-01'"
    ).fetchall()
    assert tuple(lake) == expected


@pytest.mark.conforms("C-054")
def test_an_empty_partition_raises_the_cut_line_without_a_lake_commit(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(rows="insert into events (id, ts, v) values (1, '2026-04-10 00:00+00', 1)")
    report = spanning.tier()
    assert (len(report.moved), report.rows, report.snapshot) == (3, 0, None)
    assert spanning.query("select s from thermocline.cutline") == [(None,)]
    spanning.assert_same_rows()
    spanning.both("insert into events (id, ts, v) values (2, '2026-01-10 00:00+00', 2)")
    spanning.assert_same_rows()


def test_a_table_without_rows_moves_nothing(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(rows="")
    assert spanning.tier().moved == []


@pytest.mark.conforms("C-018", "C-051")
def test_the_lag_keeps_partitions_that_are_not_far_enough_behind(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(tiering_lag="30d")
    report = spanning.tier()
    assert [name.split("_")[-1] for name in report.moved] == ["01", "02"]
    assert report.dropped == report.moved, "the lag is over, so nothing keeps them in the heap"
    spanning.assert_same_rows()


@pytest.mark.conforms("C-059", "C-060", "C-068", "C-072")
@pytest.mark.parametrize("level", ["repeatable read", "serializable", "repeatable read read only"])
def test_a_transaction_older_than_the_move_sees_every_row_once_and_keeps_the_partition(
    spanning: Spanning, level: str
) -> None:
    reader = spanning.session()
    reader.execute(f"set transaction isolation level {level.replace(' read only', '')}".encode())
    reader.execute("select 1").fetchall()
    before = reader.execute("select count(*), sum(v) from twin.events").fetchall()
    report = spanning.tier()
    assert len(report.moved) == 3
    assert report.dropped == []
    assert "may still read it" in report.deferred[0]
    spanning.both("update events set v = v + 1 where id < 50")
    assert reader.execute("select count(*), sum(v) from public_all.events").fetchall() == before
    assert_same_rows(reader)
    reader.commit()
    assert len(spanning.tier().dropped) == 3
    spanning.assert_same_rows()


@pytest.mark.conforms("C-056", "C-057", "C-058")
def test_changes_between_seal_and_publication_are_captured_and_survive_the_drop(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers act at every point between the steps; the points are the ones the kill matrix uses."""
    steps: list[str] = []
    number = 0

    def write(point: str) -> None:
        nonlocal number
        if point in steps and point != "sealed":
            return
        steps.append(point)
        for month in (1, 2, 3):
            number += 1
            spanning.both(
                f"insert into events (id, ts, v) values ({5000 + number}, '2026-0{month}-11 00:00+00', 1) returning *"
            )
            spanning.both(f"update events set v = v + 1, note = '{point}' where id = {number * 7} returning *")
            spanning.both(f"delete from events where id = {number * 7 + 1} returning id")
            spanning.both(f"update events set ts = ts + interval '1 month' where id = {number * 7 + 2} returning *")
        spanning.assert_same_rows()

    patch_fault_points(monkeypatch, write)
    report = spanning.tier()
    assert steps[0] == "line-raised"
    assert "published" in steps
    assert len(report.moved) == 3
    spanning.assert_same_rows()
    monkeypatch.undo()
    assert spanning.tier().deferred == []
    spanning.assert_same_rows()


@pytest.mark.conforms("C-057")
def test_a_writer_in_flight_delays_the_seal_by_the_lock_timeout_and_loses_nothing(spanning: Spanning) -> None:
    writer = spanning.session("public")
    writer.execute("insert into events (id, ts, v) values (9, '2026-01-20 01:00+00', 9)")
    writer.execute("update events set v = 1001 where id = 1")
    writer.execute("delete from events where id = 2")
    with pytest.raises(LockNotGranted, match="seal"):
        spanning.tier()
    writer.commit()
    spanning.twin.execute("insert into events (id, ts, v) values (9, '2026-01-20 01:00+00', 9)")
    spanning.twin.execute("update events set v = 1001 where id = 1")
    spanning.twin.execute("delete from events where id = 2")
    assert len(spanning.tier().moved) == 3
    spanning.assert_same_rows()


@pytest.mark.conforms("C-061", "C-062")
def test_an_idle_reader_delays_the_drop_and_nothing_else(spanning: Spanning) -> None:
    reader = spanning.session("public")
    reader.execute("select count(*) from events").fetchall()
    report = spanning.tier()
    assert (len(report.moved), report.dropped) == (3, [])
    assert all("data is safe; DROP retries next cycle" in line for line in report.deferred)
    spanning.assert_same_rows()
    reader.commit()
    assert len(spanning.tier().dropped) == 3
    spanning.assert_same_rows()


@pytest.mark.conforms("C-207")
def test_two_tiering_processes_never_work_on_one_table_at_once(spanning: Spanning) -> None:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(spanning.tier())
        except AnotherWriter as problem:
            results.append(problem)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(1 for result in results if getattr(result, "moved", None)) == 1
    assert spanning.spark().sql("select count(*) from thermocline.public.events.snapshots").collect()[0][0] == 1
    spanning.tier()
    spanning.assert_same_rows()


def test_a_foreign_commit_to_the_lake_stops_tiering_and_changes_no_reader(spanning: Spanning) -> None:
    spanning.tier()
    spanning.tier()
    spanning.spark().sql(
        "insert into thermocline.public.events (id, ts, v) values (77777, timestamp '2026-01-05 00:00:00', 1)"
    )
    spanning.assert_same_rows()
    spanning.both("insert into events (id, ts, v) values (7001, '2026-05-20 00:00+00', 1)")
    with pytest.raises(ForeignLakeCommit):
        spanning.tier()
    spanning.assert_same_rows()


def test_a_gap_in_the_grid_is_noted_and_its_rows_stay_readable(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(
        partitions="""
            create table public.events_a partition of public.events
                for values from ('2026-01-01 00:00+00') to ('2026-02-01 00:00+00');
            create table public.events_c partition of public.events
                for values from ('2026-03-01 00:00+00') to ('2026-04-01 00:00+00');
            create table public.events_d partition of public.events
                for values from ('2026-04-01 00:00+00') to ('2026-05-01 00:00+00');""",
        rows="insert into events (id, ts, v) select i, '2026-01-01 00:00+00'::timestamptz + i * interval '1 day', i"
        " from generate_series(1, 100) i where i not between 31 and 58",
    )
    spanning.both("insert into events (id, ts, v) values (501, '2026-02-14 00:00+00', 3)")
    spanning.assert_same_rows()
    report = spanning.tier()
    assert len(report.moved) == 2
    assert any("no partition covers" in line for line in report.plan)
    spanning.assert_same_rows()
    spanning.both("insert into events (id, ts, v) values (502, '2026-02-15 00:00+00', 4)")
    spanning.both(
        "update events set v = v + 1 where ts >= '2026-02-01 00:00+00' and ts < '2026-03-01 00:00+00' returning *"
    )
    spanning.tier()
    spanning.assert_same_rows()


def test_rows_of_a_partition_made_below_the_cut_line_are_captured(spanning: Spanning) -> None:
    spanning.tier()
    spanning.tier()
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute(
            "create table public.late partition of public.events for values from ('2026-01-10 00:00+00') to "
            "('2026-01-20 00:00+00')"
        )
    spanning.seam.execute("insert into public.events (id, ts, v) values (8001, '2026-01-15 00:00+00', 1)")
    spanning.twin.execute("insert into events (id, ts, v) values (8001, '2026-01-15 00:00+00', 1)")
    report = spanning.tier()
    assert any("made below the cut-line" in note for note in report.notes)
    spanning.assert_same_rows()
    spanning.both("update events set v = 2 where id = 8001 returning *")
    spanning.both("insert into events (id, ts, v) values (8002, '2026-01-16 00:00+00', 1)")
    spanning.assert_same_rows()
    assert "public.late" in spanning.tier().dropped
    spanning.assert_same_rows()


def test_a_sealed_partition_that_is_sealed_again_forgets_what_the_first_seal_captured(spanning: Spanning) -> None:
    """Otherwise a stale image in the delta would hide the newer row once T has passed it."""
    with connect(spanning.dsn, autocommit=True) as conn:
        table = read_spanning(conn, spanning.name)
        assert table.registered.id == 1
    spanning.both("insert into events (id, ts, v) values (3000, '2026-06-01 00:00+00', 1)")
    spanning.both("update events set ts = '2026-02-02 02:00+00' where id = 3000")
    spanning.both("update events set v = 99 where id = 3000")
    spanning.tier()
    spanning.assert_same_rows()
    assert spanning.query(
        "select count(*) from thermocline_delta.public__events where id = 3000 and ts < '2026-03-01'"
    ) == [(0,)]


def test_a_dry_run_prints_the_plan_and_changes_nothing(spanning: Spanning) -> None:
    before = spanning.query("select t, s, fence, seam_line from thermocline.cutline")
    report = spanning.tier(dry_run=True)
    assert [line.split()[0] for line in report.plan] == ["move", "move", "move", "raise"]
    assert spanning.query("select t, s, fence, seam_line from thermocline.cutline") == before
    assert spanning.query("select count(*) from thermocline.op_log") == [(0,)]


def test_a_partition_whose_capture_trigger_was_off_is_not_dropped_until_it_fires_always_and_was_compared(
    spanning: Spanning,
) -> None:
    reader = spanning.session("public")
    reader.execute("set transaction isolation level repeatable read")
    reader.execute("select 1").fetchall()
    spanning.tier()
    reader.commit()
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute("alter table public.events_2026_02 disable trigger all")
        report = spanning.tier()
        assert [name.split("_")[-1] for name in report.dropped] == ["01", "03"]
        assert "capture trigger is gone or disabled" in report.deferred[0]
        # What pg_restore --disable-triggers does at its end: whatever was written meanwhile was not captured.
        conn.execute("alter table public.events_2026_02 enable trigger all")
        report = spanning.tier()
        assert not report.dropped
        assert report.deferred[0].index("ENABLE ALWAYS TRIGGER thermocline_capture") < report.deferred[0].index(
            "verify --repair"
        )
        for schema in ("public", "twin"):
            conn.execute(f"update {schema}.events set v = 4711 where id = 150".encode())
        conn.execute("alter table public.events_2026_02 disable trigger all")
        for schema in ("public", "twin"):
            conn.execute(f"delete from {schema}.events where id = 151".encode())
        conn.execute("alter table public.events_2026_02 enable always trigger thermocline_capture")
        report = spanning.tier()
        assert (report.dropped, "run `thermocline verify --repair`" in report.deferred[0]) == ([], True)
        compared = verify(spanning.dsn, spanning.name)
        assert not compared.is_exact
        assert not spanning.tier().dropped
        repair(spanning.dsn, spanning.name, check_repairable(compared), spanning.settings)
        assert verify(spanning.dsn, spanning.name).is_exact
    assert [name.split("_")[-1] for name in spanning.tier().dropped] == ["02"]
    spanning.assert_same_rows()


def test_sealing_takes_the_lock_within_the_timeout_or_not_at_all(spanning: Spanning) -> None:
    holder = spanning.session("public")
    holder.execute("lock table public.events_2026_01 in row exclusive mode")
    with connect(spanning.dsn, autocommit=True) as conn:
        table = read_spanning(conn, spanning.name)
        seen = observe(conn, table)
        with pytest.raises(LockNotGranted, match=r"session \d+"):
            apply_seal(conn, table.seam, seen.partitions[0], AXIS_MIN, 100)
