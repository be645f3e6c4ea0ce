"""A partition that leaves the heap on its way to the lake takes its rows along, whatever moment it leaves at: as a
DELETE on the twin."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from tests.fault_points import patch_fault_points
from tests.faults.kills import assert_nothing_left_over, kill_at
from tests.faults.points import ALL
from tests.twin import Spanning

from thermocline.core.messages.progress import Progress
from thermocline.errors import LockNotGranted, PartitionGone, SparkTaskFailed
from thermocline.runtime.pg import connect_as_typed as connect

_FEBRUARY = "ts >= '2026-02-01 00:00+00' and ts < '2026-03-01 00:00+00'"
_DETACH = "alter table public.events detach partition public.events_2026_02"
_ATTACH = (
    "alter table public.events attach partition public.events_2026_02 for values from ('2026-02-01 00:00Z') to "
    "('2026-03-01 00:00Z')"
)


def _drop(spanning: Spanning) -> None:
    heap(spanning, "drop table public.events_2026_02")
    spanning.twin.execute(f"delete from events where {_FEBRUARY}".encode())


def _detach(spanning: Spanning) -> None:
    heap(spanning, _DETACH)
    heap(spanning, "update public.events_2026_02 set v = v + 1")
    spanning.twin.execute(f"delete from events where {_FEBRUARY}".encode())


def _change_while_detached(spanning: Spanning) -> None:
    heap(spanning, _DETACH)
    heap(
        spanning,
        "delete from public.events_2026_02 where id < 140; update public.events_2026_02 set v = v + 1 where id < 150",
    )
    heap(spanning, _ATTACH)
    spanning.twin.execute(f"delete from events where {_FEBRUARY} and id < 140".encode())
    spanning.twin.execute(f"update events set v = v + 1 where {_FEBRUARY} and id < 150".encode())


def _make_anew(spanning: Spanning) -> None:
    _drop(spanning)
    heap(
        spanning,
        (
            "create table public.events_2026_02 partition of public.events for values from ('2026-02-01 00:00Z') "
            "to ('2026-03-01 00:00Z')"
        ),
    )
    spanning.both("insert into events (id, ts, v) values (7000, '2026-02-05 00:00+00', 1) returning *")


def is_at(point: str, reported: str | Progress) -> bool:
    """Whether a fault point, or the progress of the partition of February or of the whole copy, is at this point."""
    return str(reported) == point or str(reported).startswith(
        (f"{point} public.events_2026_02", f"{point} public.events:")
    )


def heap(spanning: Spanning, statements: str) -> None:
    with connect(spanning.dsn, autocommit=True) as conn:
        conn.execute(statements.encode())


_WAYS = {
    "dropped": _drop,
    "detached": _detach,
    "changed while detached": _change_while_detached,
    "made anew": _make_anew,
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_partition_that_left_after_the_lake_commit_does_not_come_back_when_it_is_published(
    spanning: Spanning, way: str
) -> None:
    kill_at(spanning, "committed")
    _WAYS[way](spanning)
    spanning.assert_same_rows()
    report = spanning.tier()
    assert any("left the heap" in note for note in report.notes), report.notes
    spanning.assert_same_rows()
    spanning.tier()
    spanning.fold()
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


def test_a_partition_attached_beyond_the_cut_line_before_its_move_is_published_is_not_published(
    spanning: Spanning,
) -> None:
    kill_at(spanning, "committed")
    for month in ("03", "04"):
        heap(spanning, f"alter table public.events detach partition public.events_2026_{month}")
    heap(spanning, "delete from public.events_2026_03 where id = 270")
    heap(
        spanning,
        (
            "alter table public.events attach partition public.events_2026_03 for values from ('2026-03-01 "
            "00:00Z') to ('2026-05-01 00:00Z')"
        ),
    )
    spanning.twin.execute("delete from events where id = 270 or ts >= '2026-04-01 00:00+00'")
    spanning.assert_same_rows()
    spanning.tier(dry_run=True)
    report = spanning.tier()
    assert any("left the heap" in note for note in report.notes), report.notes
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()


@pytest.mark.parametrize("way", _WAYS if ALL else ["dropped", "changed while detached"])
def test_a_change_captured_before_the_partition_left_is_no_correction_once_the_cut_line_passes_it(
    spanning: Spanning, way: str
) -> None:
    kill_at(spanning, "intent")
    spanning.both("update events set v = v + 1, note = 'sealed' where id in (125, 130, 160) returning *")
    spanning.both("insert into events (id, ts, v) values (8000, '2026-02-07 00:00+00', 1) returning *")
    _WAYS[way](spanning)
    for _ in range(2):
        spanning.tier()
        spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.parametrize("point", ["sealing", "sealed", "committed-noted"] if ALL else ["sealing", "committed-noted"])
def test_a_partition_dropped_while_tiering_runs_is_gone_and_the_next_cycle_moves_the_others(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    def drop(at: str | Progress) -> None:
        if is_at(point, at):
            patch_fault_points(monkeypatch, lambda _: None)
            # Whoever ends our session frees the partition: nothing else holds it against a DROP.
            heap(
                spanning,
                (
                    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = "
                    "'thermocline snapshot'"
                ),
            )
            _drop(spanning)

    patch_fault_points(monkeypatch, drop)
    with pytest.raises(PartitionGone):
        spanning.tier(report_progress=drop)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    assert spanning.query(
        "select count(*) from thermocline.partitions where state in ('sealing', 'tiering', 'hot')"
    ) == [(1,)]
    assert_nothing_left_over(spanning)


@pytest.mark.parametrize("point", ["copying", "committed-noted"])
def test_a_drop_that_waits_for_the_move_goes_first_and_the_move_is_taken_back(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    waiting: list[threading.Thread] = []

    def drop(at: str | Progress) -> None:
        if not waiting and is_at(point, at):
            waiting.append(threading.Thread(target=_drop, args=[spanning]))
            waiting[0].start()
            while not spanning.query("select 1 from pg_locks where not granted and mode = 'AccessExclusiveLock'"):
                time.sleep(0.01)

    patch_fault_points(monkeypatch, drop)
    with pytest.raises((LockNotGranted, SparkTaskFailed), match="lock"):
        spanning.tier(report_progress=drop)
    waiting[0].join()
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


@pytest.mark.parametrize("point", ["resolve-undone"])
def test_a_move_that_is_being_taken_back_when_the_process_dies_is_taken_back_by_the_next(
    spanning: Spanning, point: str
) -> None:
    kill_at(spanning, "committed")
    _drop(spanning)
    kill_at(spanning, point)
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


def test_without_event_triggers_a_partition_made_in_a_gap_before_the_publication_is_not_passed_by_the_cut_line(
    make_spanning: Callable[..., Spanning], monkeypatch: pytest.MonkeyPatch
) -> None:
    spanning = make_spanning()
    heap(spanning, "alter event trigger thermocline_partition_end disable; drop table public.events_2026_02")
    spanning.twin.execute(f"delete from events where {_FEBRUARY}".encode())

    def make(at: str) -> None:
        if at == "committed":
            patch_fault_points(monkeypatch, lambda _: None)
            heap(
                spanning,
                "create table public.events_2026_02 partition of public.events"
                " for values from ('2026-02-01 00:00Z') to ('2026-03-01 00:00Z')",
            )
            spanning.both("insert into events (id, ts, v) values (7000, '2026-02-05 00:00+00', 1) returning *")

    patch_fault_points(monkeypatch, make)
    with pytest.raises(PartitionGone, match="events_2026_02"):
        spanning.tier()
    spanning.assert_same_rows()
    spanning.tier()
    spanning.assert_same_rows()
