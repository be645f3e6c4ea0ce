"""The retention line: whole ranges of the lake expire, R and S move together, and no write path brings a row below R
back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest
from tests.fault_points import patch_fault_points
from tests.twin import Spanning, assert_same_rows

from thermocline.errors import LockNotGranted
from thermocline.ops.verify.verify_table import verify

LINE = "2026-03-01 00:00:00+00"
BELOW = f"ts = .* lies below the retention line {LINE.replace('+', '[+]')} of public.events"
WRITES = (
    "insert into events (id, ts, v) values (9001, '2026-02-28 23:59:59+00', 1)",
    "insert into events (id, ts, v) select 9001, '2026-01-05', 1",
    "update events set ts = '2026-02-01 00:00+00' where id = 300",
    "update events set ts = '2026-02-01 00:00+00' where id = 390",
    (
        "insert into events (id, ts, v) values (9001, '2026-04-05 00:00+00', 1), (9002, '2026-03-05 00:00+00', "
        "1), (9003, '2020-01-01', 1)"
    ),
)


@pytest.fixture
def spanning(make_spanning: Callable[..., Spanning]) -> Spanning:
    """Rows from January to 10 April 2026, kept in the lake for thirty days below T."""
    return make_spanning(lake_retention="30d")


def _expire(spanning: Spanning) -> None:
    """Move, then expire; the twin forgets the same rows."""
    assert len(spanning.tier().moved) == 3
    report = spanning.tier()
    assert report.retention_line == LINE
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")


@pytest.mark.conforms("C-006", "C-116", "C-117")
def test_rows_below_the_line_expire_once(spanning: Spanning) -> None:
    spanning.tier()
    spanning.both("update events set v = v + 1 where id % 5 = 0 returning *")
    spanning.both(
        "insert into events (id, ts, v) values (9001, '2026-01-05 00:00+00', 1), (9002, '2025-01-05 00:00+00', 1)"
    )
    spanning.both("delete from events where id % 11 = 0 returning id")
    report = spanning.tier()
    assert (report.retention_line, report.expired_files > 0) == (LINE, True)
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    lake = (
        spanning.spark()
        .sql("select min(ts) >= timestamp '2026-03-01 00:00:00Z' from thermocline.public.events")
        .collect()[0][0]
    )
    assert lake is True
    for relation in ("public__events", "public__events__spill"):
        assert spanning.query(f"select count(*) from thermocline_delta.{relation} where ts < '{LINE}'") == [(0,)]
    s_r = spanning.query("select s, r, epoch from thermocline.cutline")
    op = spanning.query("select kind, phase, result_snapshot from thermocline.op_log order by started_at desc limit 1")
    assert op == [("retain", "published", s_r[0][0])]
    again = spanning.tier()
    assert (again.retention_line, again.expired_files) == (None, 0)
    assert spanning.query("select s, r, epoch from thermocline.cutline") == s_r
    spanning.both("update events set v = v + 1 where id % 3 = 0 returning *")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-118", "C-119")
@pytest.mark.parametrize("path", ["public_all, public", "public"], ids=["on the seam", "on the heap's own name"])
def test_every_write_below_the_line_is_refused_whole_with_the_same_sentence(spanning: Spanning, path: str) -> None:
    _expire(spanning)
    session = spanning.session(path, autocommit=True)
    for statement in WRITES:
        if path == "public" and "id = 300" in statement:
            continue  # only the lake holds that row
        with pytest.raises(psycopg.errors.CheckViolation, match=BELOW):
            session.execute(statement.encode())
        spanning.assert_same_rows()
    with (
        pytest.raises(psycopg.errors.CheckViolation, match=BELOW),
        session.cursor().copy("copy public.events (id, ts, v) from stdin") as copy,
    ):
        copy.write("9001\t2026-03-05 00:00+00\t1\n9002\t2026-01-05 00:00+00\t1\n")
    spanning.assert_same_rows()
    spanning.both("insert into events (id, ts, v) values (9001, '2026-03-01 00:00:00+00', 1)")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-117", "C-121")
def test_a_reader_older_than_the_expiry_keeps_its_rows(spanning: Spanning) -> None:
    spanning.tier()
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    before = reader.execute("select count(*), sum(v) from public_all.events").fetchall()
    assert spanning.tier().retention_line == LINE
    assert reader.execute("select count(*), sum(v) from public_all.events").fetchall() == before
    assert_same_rows(reader)
    reader.commit()


@pytest.mark.conforms("C-118")
def test_writers_in_flight_delay_the_line_and_older_snapshots_must_run_again(spanning: Spanning) -> None:
    spanning.tier()
    old = spanning.session()
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1 from thermocline.cutline").fetchall()
    writer = spanning.session()
    writer.execute("insert into events (id, ts, v) values (9001, '2026-01-05 00:00+00', 1)")
    with pytest.raises(LockNotGranted, match="retention line"):
        spanning.tier()
    writer.commit()
    assert spanning.tier().retention_line == LINE
    with pytest.raises(psycopg.errors.SerializationFailure):
        old.execute("insert into events (id, ts, v) values (9002, '2026-01-06 00:00+00', 1)")
    old.rollback()
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-118")
def test_a_partition_made_below_the_line_brings_nothing_back(spanning: Spanning) -> None:
    _expire(spanning)
    bounds = "from ('2026-02-20 00:00+00') to ('2026-03-05 00:00+00')"
    rows = "(9001, '2026-02-25 00:00+00', 1), (9002, '2026-03-02 00:00+00', 1)"
    spanning.seam.execute("create table public.late (like public.events including all)")
    spanning.seam.execute(f"insert into public.late (id, ts, v) values {rows}".encode())
    spanning.seam.execute(f"alter table public.events attach partition public.late for values {bounds}".encode())
    report = spanning.tier()
    assert any(f"below the retention line {LINE} stay expired" in note for note in report.notes)
    spanning.twin.execute("insert into events (id, ts, v) values (9002, '2026-03-02 00:00+00', 1)")
    spanning.assert_same_rows()
    with pytest.raises(psycopg.errors.CheckViolation, match=BELOW):
        spanning.seam.execute("insert into public.events (id, ts, v) values (9003, '2026-02-26 00:00+00', 1)")
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.conforms("C-116")
def test_the_line_stays_below_partitions_the_heap_still_has(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(lake_retention="1d", reclaim_lag="60d")
    assert spanning.tier().dropped == []
    spanning.age_moves(60, "%_2026_01")
    report = spanning.tier()
    assert report.dropped == ["public.events_2026_01"]
    assert report.retention_line == "2026-02-01 00:00:00+00"
    spanning.twin.execute("delete from events where ts < '2026-02-01 00:00+00'")
    spanning.assert_same_rows()


@pytest.mark.conforms("C-120")
@pytest.mark.parametrize("layout", ["none", "year", "day"])
def test_rows_below_the_line_go_from_files_that_reach_across_it(
    make_spanning: Callable[..., Spanning], layout: str
) -> None:
    spanning = make_spanning(lake_retention="30d", lake_partition=layout)
    spanning.tier()
    spanning.both("update events set v = v + 1 where id in (17, 130, 230, 234, 236, 250, 260)")
    spanning.both("delete from events where id in (18, 231, 251)")
    spanning.fold()
    spanning.both("update events set v = v + 1 where id in (19, 130, 232, 252)")
    report = spanning.tier()
    assert report.retention_line == LINE
    if layout != "day":
        assert "rows of 1 others were deleted" in report.sentence
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    _assert_lake_is_twin_below(spanning, "2026-04-01")
    assert verify(spanning.dsn, spanning.name).is_exact
    spanning.both("update events set v = v + 1 where id % 3 = 0 returning *")
    spanning.fold()
    spanning.assert_same_rows()
    _assert_lake_is_twin_below(spanning, "2026-04-01")
    assert spanning.tier().retention_line is None


@pytest.mark.conforms("C-120")
def test_a_file_that_was_cut_once_is_cut_again_and_in_the_end_removed(make_spanning: Callable[..., Spanning]) -> None:
    """One file for all of history, as after a compaction: each pass deletes what it newly expires, and nothing
    twice."""
    spanning = make_spanning(lake_retention="45d", lake_partition="none", tiering_lag="8d")
    spanning.tier()
    assert spanning.query("select thermocline.key_timestamptz(t) from thermocline.cutline") == [
        (datetime(2026, 4, 1, tzinfo=UTC),)
    ]
    _compact(spanning)
    first = spanning.tier()
    assert first.retention_line == "2026-02-01 00:00:00+00"
    spanning.twin.execute("delete from events where ts < '2026-02-01 00:00+00'")
    spanning.assert_same_rows()
    spanning.seam.execute("update thermocline.tables set lake_retention = 30 * 86400000000::bigint")
    second = spanning.tier()
    assert (second.retention_line, second.expired_files) == (LINE, 0)
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    deleted = spanning.query(
        "select sum((counters ->> 'rows_deleted')::int) from thermocline.op_log where kind = 'retain'"
    )
    assert deleted == [(235,)]
    _assert_lake_is_twin_below(spanning, "2026-04-01")


def _compact(spanning: Spanning) -> None:
    """All files into one by Iceberg's own procedure, published as maintenance would."""
    spanning.spark().sql(
        "call thermocline.system.rewrite_data_files(table => 'public.events', options => map('rewrite-all', 'true'))"
    ).collect()
    found = spanning.spark().sql(
        "select snapshot_id from thermocline.public.events.snapshots order by committed_at desc limit 1"
    )
    snapshot = found.collect()[0][0]
    spanning.seam.execute(
        "insert into thermocline.published (table_id, snapshot_id) select id, %s from thermocline.tables", [snapshot]
    )
    spanning.seam.execute("update thermocline.cutline set s = %s", [snapshot])
    assert spanning.spark().sql("select count(*) from thermocline.public.events.data_files").collect()[0][0] == 1


def _assert_lake_is_twin_below(spanning: Spanning, line: str) -> None:
    """A second engine reads the lake alone: exactly the twin's rows below the cut-line, once nothing waits in the
    delta."""
    spanning.fold()
    lake = spanning.spark().sql("select count(*), sum(v), sum(id) from thermocline.public.events").collect()
    twin = spanning.twin.execute(
        "select count(*), sum(v), sum(id) from events where ts < %s::timestamptz", [f"{line} 00:00+00"]
    ).fetchall()
    assert [tuple(row) for row in lake] == twin


@pytest.mark.conforms("C-117")
@pytest.mark.parametrize("point", ["retain-line-raised", "retain-written"])
def test_a_pass_that_dies_at_any_step_is_finished_by_the_next(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    spanning.tier()
    spanning.both("update events set v = v + 1 where id % 5 = 0")

    def die(at: str) -> None:
        if at == point:
            raise KeyboardInterrupt

    patch_fault_points(monkeypatch, die)
    with pytest.raises(KeyboardInterrupt):
        spanning.tier()
    monkeypatch.undo()
    spanning.assert_same_rows()
    spanning.tier()
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    assert spanning.query("select count(*) from thermocline.op_log where phase not in ('published', 'abandoned')") == [
        (0,)
    ]
