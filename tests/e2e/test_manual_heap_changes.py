"""What people do to the heap by hand while it is registered: partitions detached or made, the table renamed. No row is
lost or returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.twin import Spanning

from thermocline.errors import HeapChanged, PartitionGone
from thermocline.ops.tier import drop_partitions
from thermocline.seam.heap.older_readers import why_not_drop

_JANUARY = "ts < '2026-02-01 00:00+00'"


def test_a_partition_detached_while_it_is_sealed_is_not_copied_and_what_happens_to_it_is_no_history(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(reclaim_lag="9000d")
    heap = spanning.session("public", autocommit=True)

    def detach(said: str) -> None:
        if said == "sealing public.events_2026_02":
            heap.execute("alter table public.events detach partition public.events_2026_01")
            spanning.twin.execute(f"delete from events where {_JANUARY}".encode())

    with pytest.raises(PartitionGone, match=r"public\.events_2026_01 was detached from public\.events"):
        spanning.tier(report_progress=detach)
    spanning.assert_same_rows()
    heap.execute("delete from public.events_2026_01 where id < 20; update public.events_2026_01 set v = v + 1")
    assert spanning.tier().moved == ["public.events_2026_02", "public.events_2026_03"]
    spanning.assert_same_rows()

    heap.execute("alter table public.events detach partition public.events_2026_02")
    heap.execute(
        "delete from public.events_2026_02 where id < 150; update public.events_2026_02 set ts = '2026-01-02 "
        "00:00+00', v = 7"
    )
    heap.execute(
        "insert into public.events_2026_02 (id, ts, v) values (1, '2026-02-02 00:00+00', 1); truncate "
        "public.events_2026_01"
    )
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (130, 300, 380) returning id, v")
    spanning.tier()
    spanning.fold()
    spanning.assert_same_rows()


def test_a_partition_that_is_attached_again_brings_what_was_done_to_it(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(reclaim_lag="40d")
    heap = spanning.session("public", autocommit=True)
    spanning.tier()
    assert spanning.query("select name from thermocline.partitions where state = 'tiered' order by 1")[-1] == (
        "events_2026_03",
    )
    heap.execute("alter table public.events detach partition public.events_2026_03")
    heap.execute("update public.events_2026_03 set note = 'fixed' where id < 300")
    spanning.assert_same_rows()
    heap.execute(
        "alter table public.events attach partition public.events_2026_03 for values from ('2026-03-01 "
        "00:00Z') to ('2026-04-01 00:00Z')"
    )
    spanning.twin.execute("update events set note = 'fixed' where id < 300 and ts >= '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (290, 310) returning *")
    spanning.both("insert into events (id, ts, v) values (900, '2026-06-01 00:00+00', 1)")
    spanning.seam.execute("update thermocline.tables set reclaim_lag = 0")
    assert "public.events_2026_03" in spanning.tier().dropped
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.parametrize("watched", [True, False], ids=["event triggers", "no event triggers"])
@pytest.mark.parametrize(("days", "month"), [(120, "2026-05"), (-365, "2025-01")], ids=["above", "below"])
def test_a_tiered_partition_that_is_attached_elsewhere_with_other_rows_is_a_new_one(
    make_spanning: Callable[..., Spanning], watched: bool, days: int, month: str
) -> None:
    """Above the cut-line its rows are hot and move in their turn; below it they are corrections."""
    spanning = make_spanning(reclaim_lag="9000d")
    heap = spanning.session("public", autocommit=True)
    spanning.tier()
    assert spanning.query("select state from thermocline.partitions where name = 'events_2026_01'") == [("tiered",)]
    moved = f"ts + interval '{days} days'"
    if not watched:
        heap.execute("alter event trigger thermocline_partition_end disable")
    heap.execute("alter table public.events detach partition public.events_2026_01")
    if not watched:
        heap.execute("drop trigger thermocline_capture on public.events_2026_01")
    heap.execute(f"update public.events_2026_01 set ts = {moved}, note = 'moved'".encode())
    until = f"'{month}-01 00:00Z'::timestamptz + interval '31 days'"
    ((end,),) = heap.execute(f"select ({until})::text".encode()).fetchall()
    heap.execute(
        (
            f"alter table public.events attach partition public.events_2026_01 for values from ('{month}-01 "
            f"00:00Z') to ('{end}')"
        ).encode()
    )
    spanning.twin.execute(
        f"insert into events select id, {moved}, v, 'moved', amount, tags, doc from events where {_JANUARY}".encode()
    )
    spanning.tier()
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (20, 30) returning id, ts, v")
    spanning.both("insert into events (id, ts, v) values (900, '2026-06-10 00:00+00', 1)")
    for _ in range(2):
        report = spanning.tier()
        spanning.assert_same_rows()
    assert spanning.query(
        "select state, count(*) from thermocline.partitions where name = 'events_2026_01' group by 1"
    ) == [("tiered", 1)]
    assert spanning.query("select t > thermocline.axis('2026-05-01 00:00Z'::timestamptz) from thermocline.cutline") == [
        (days > 0,)
    ]
    assert report.op_id is None
    spanning.both("delete from events where id = 25 returning id, ts")
    spanning.fold()
    spanning.assert_same_rows()


def test_a_partition_made_below_the_cut_line_is_seen_at_once(changing: Spanning) -> None:
    heap = changing.session("public", autocommit=True)
    heap.execute(
        "create table public.older partition of public.events for values from (minvalue) to ('2025-01-01 00:00+00')"
    )
    changing.both("insert into events (id, ts, v) values (801, '2024-12-05', 1) returning *")
    heap.execute("create table public.late (like public.events including all)")
    heap.execute("insert into public.late (id, ts, v) values (802, '2025-03-05', 2), (803, '2025-03-06', 3)")
    heap.execute(
        "alter table public.events attach partition public.late for values from ('2025-03-01 00:00+00') to "
        "('2025-04-01 00:00+00')"
    )
    changing.twin.execute("insert into events (id, ts, v) values (802, '2025-03-05', 2), (803, '2025-03-06', 3)")
    changing.assert_same_rows()
    changing.both("update events set v = v + 1 where id in (3, 801, 802) returning id, v")
    changing.both("delete from events where id = 803 returning *")
    changing.assert_same_rows()
    assert any("made below the cut-line" in note for note in changing.tier().notes)
    changing.fold()
    changing.assert_same_rows()


@pytest.mark.parametrize("way", ["made anew", "moved"])
def test_a_partition_that_took_the_name_of_a_tiered_one_is_not_dropped_in_its_place(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Between the look and the drop somebody puts hot rows where the tiered partition was."""
    spanning = make_spanning(reclaim_lag="40d")
    heap = spanning.session("public", autocommit=True)
    spanning.tier()

    def replace(*given: Any) -> str | None:
        monkeypatch.setattr(drop_partitions, "why_not_drop", why_not_drop)
        bounds = "for values from ('2026-06-01 00:00Z') to ('2026-07-01 00:00Z')"
        if way == "made anew":
            heap.execute("drop table public.events_2026_03")
            heap.execute(f"create table public.events_2026_03 partition of public.events {bounds}".encode())
        else:
            heap.execute(
                "alter table public.events detach partition public.events_2026_03; truncate public.events_2026_03"
            )
            heap.execute(f"alter table public.events attach partition public.events_2026_03 {bounds}".encode())
        spanning.both("insert into events (id, ts, v) values (902, '2026-06-10 00:00+00', 1) returning *")
        return why_not_drop(*given)

    spanning.both("insert into events (id, ts, v) values (901, '2026-05-20 00:00+00', 1)")
    spanning.age_moves(40)
    monkeypatch.setattr(drop_partitions, "why_not_drop", replace)
    spanning.tier()
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()


def test_without_event_triggers_a_detached_partition_refuses_changes_until_it_is_let_go(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(reclaim_lag="9000d")
    heap = spanning.session("public", autocommit=True)
    spanning.tier()
    heap.execute(
        "alter event trigger thermocline_partition_end disable; alter table public.events detach partition "
        "public.events_2026_01"
    )
    for statement in (
        "delete from public.events_2026_01",
        "update public.events_2026_01 set v = 1",
        "truncate public.events_2026_01",
    ):
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState,
            match=r'"events_2026_01" is no partition of public\.events any more',
        ):
            heap.execute(statement.encode())
    heap.execute("drop trigger thermocline_capture on public.events_2026_01; delete from public.events_2026_01")
    spanning.assert_same_rows()


def test_a_seam_never_writes_to_another_table_that_took_the_heaps_name(changing: Spanning) -> None:
    changing.seam.execute(
        "alter table public.events rename to events_old; create table public.events (like public.events_old)"
    )
    for statement in (
        "insert into events (id, ts, v) values (901, '2026-01-05', 1)",
        "insert into events (id, ts, v) values (902, '2026-03-05', 1)",
        "update events set v = 77 where id in (5, 65)",
        "delete from events where id = 6",
        "delete from events where id = 66",
    ):
        with pytest.raises(
            psycopg.errors.ObjectNotInPrerequisiteState,
            match=r"^TC208: public\.events is not the table that was registered",
        ):
            changing.seam.execute(statement.encode())
    changing.assert_same_rows()
    with pytest.raises(HeapChanged):
        changing.tier()
    changing.seam.execute("drop table public.events; alter table public.events_old rename to events")
    changing.both("update events set v = 77 where id in (5, 65) returning id, v")
    changing.assert_same_rows()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@pytest.mark.parametrize("keep_heap", [False, True], ids=["tiered", "keep-heap"])
def test_a_truncate_that_cannot_see_every_row_it_removes_is_refused(
    make_spanning: Callable[..., Spanning], keep_heap: bool, level: str
) -> None:
    spanning = make_spanning(keep_heap=keep_heap)
    old = spanning.session("public")
    old.execute(f"set transaction isolation level {level}".encode())
    old.execute("truncate public.events_2026_04")  # no capture there: nothing could be missed
    old.rollback()
    spanning.tier()
    old.execute(f"set transaction isolation level {level}".encode())
    old.execute("select 1")
    spanning.both("insert into events (id, ts, v) values (9001, '2026-01-10', 1), (9002, '2025-01-10', 2) returning *")
    with pytest.raises(
        psycopg.errors.FeatureNotSupported, match=r"TRUNCATE of public\.events does not work at isolation level"
    ):
        old.execute("truncate public.events")
    old.rollback()
    spanning.assert_same_rows()
    with spanning.seam.transaction():
        spanning.seam.execute("truncate public.events")
    spanning.twin.execute("delete from events where %s or ts >= '2026-04-01 00:00+00'", [keep_heap])
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_partition_attached_at_an_older_snapshot_brings_every_row_or_is_refused(
    changing: Spanning, level: str
) -> None:
    heap, old = changing.session("public", autocommit=True), changing.session("public")
    bounds = "for values from ('2025-03-01 00:00+00') to ('2025-04-01 00:00+00')"
    heap.execute("create table public.late (like public.events including all)")
    old.execute(f"set transaction isolation level {level}".encode())
    old.execute("select 1")
    heap.execute("insert into public.late (id, ts, v) values (802, '2025-03-05', 2)")
    with pytest.raises(
        psycopg.errors.FeatureNotSupported, match=r"late cannot become a partition of public\.events at isolation level"
    ):
        old.execute(f"alter table public.events attach partition public.late {bounds}".encode())
    old.rollback()
    changing.assert_same_rows()
    old.execute(f"set transaction isolation level {level}".encode())
    old.execute(f"create table public.early partition of public.events {bounds}".encode())
    old.execute("insert into public.events (id, ts, v) values (803, '2025-03-06', 3)")
    old.commit()
    changing.twin.execute("insert into events (id, ts, v) values (803, '2025-03-06', 3)")
    changing.assert_same_rows()


def test_a_partition_made_at_a_snapshot_older_than_the_cut_line_fails_to_serialize(spanning: Spanning) -> None:
    old = spanning.session("public")
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    spanning.tier()
    with pytest.raises(psycopg.errors.SerializationFailure):
        old.execute(
            "create table public.older partition of public.events for values from ('2025-01-01 00:00+00') to "
            "('2025-02-01 00:00+00')"
        )
    old.rollback()
    spanning.assert_same_rows()


@pytest.mark.parametrize(
    "statement",
    [
        (
            "create table public.sub partition of public.events for values from ('2025-03-01') to ('2025-04-01') "
            "partition by range (ts)"
        ),
        "create table public.sub (like public.events including all) partition by list (id);"
        "create table public.leaf partition of public.sub default; insert into public.leaf (id, ts, v) "
        "values (802, '2025-03-05', 2);"
        "alter table public.events attach partition public.sub for values from ('2025-03-01') to ('2025-04-01')",
        "create schema apart create table sub partition of public.events for values from ('2027-03-01') to "
        "('2027-04-01')"
        " partition by range (ts)",
    ],
    ids=["made", "attached", "with its schema"],
)
def test_a_partition_that_holds_no_rows_itself_is_refused_in_the_statement(changing: Spanning, statement: str) -> None:
    heap = changing.session("public", autocommit=True)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="only a plain table can be a partition of it"):
        heap.execute(statement.encode())
    changing.assert_same_rows()
    changing.tier()
    changing.assert_same_rows()


def test_a_partition_made_with_its_schema_is_captured_too(changing: Spanning) -> None:
    heap = changing.session("public", autocommit=True)
    heap.execute(
        "create schema apart create table older partition of public.events for values from ('2025-03-01') to "
        "('2025-04-01')"
    )
    changing.both("insert into events (id, ts, v) values (802, '2025-03-05', 2) returning *")
    changing.both("update events set v = v + 1 where id = 802 returning *")
    changing.assert_same_rows()
