"""Triggers of the user's that fire in a transaction of Thermocline's own: what they change is captured like any other
change.

A fold and an expiry take rows out of the spill that the lake holds or that have expired; those deletes alone are no
corrections.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.twin import Spanning


def _on_delete(spanning: Spanning, action: str, kind: str = "after") -> None:
    """A trigger that fires in every session, ours too, when row 9001 is deleted from the heap."""
    spanning.seam.execute(
        f"""create function public.meddle() returns trigger language plpgsql as $$
            begin
                if old.id = 9001 then {action} end if;
                return old;
            end $$;
            create trigger aaa {kind} delete on public.events for each row execute function public.meddle();
            alter table public.events enable always trigger aaa""".encode()
    )


def test_what_a_trigger_changes_while_a_fold_publishes_is_captured(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(reclaim_lag="9000d")
    spanning.tier()
    spanning.both("insert into events (id, ts, v) values (9001, '2025-05-01', 1), (9002, '2025-05-02', 2)")
    _on_delete(
        spanning,
        """
        delete from public.events where id in (9003, 5);
        update public.events set v = v + 1000 where id in (9004, 6);
        update public.events set ts = ts + interval '1 day' where id in (9005, 7);
        insert into public.events (id, ts, v) values (9006, '2025-05-01', 6), (9002, '2025-05-02', 22);
        delete from public.events where id = 9006;
        insert into public.events (id, ts, v) values (9001, '2025-05-01', 11);
        """,
    )

    def write(reported: object) -> None:
        # After the fold's snapshot: these rows are in the spill, and none of the fold's.
        if isinstance(reported, str) and reported.startswith("folding"):
            spanning.both(
                "insert into events (id, ts, v) values (9003, '2025-05-03', 3), (9004, '2025-05-04', 4), "
                "(9005, '2025-05-05', 5)"
            )

    assert spanning.fold(report_progress=write, drain=False).rows == 2
    for statement in (
        "delete from events where id in (9003, 5)",
        "update events set v = v + 1000 where id in (9004, 6)",
        "update events set ts = ts + interval '1 day' where id in (9005, 7)",
        "update events set v = 22 where id = 9002",
        "update events set v = 11 where id = 9001",
    ):
        spanning.twin.execute(statement.encode())
    spanning.twin.execute(
        "update events set note = 'd', amount = null, tags = null, doc = null where id in (9001, 9002)"
    )
    spanning.assert_same_rows()
    spanning.seam.execute("drop trigger aaa on public.events")
    spanning.fold()
    spanning.assert_same_rows()


def test_a_row_that_a_trigger_deletes_while_a_fold_publishes_its_correction_stays_deleted(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(reclaim_lag="9000d")
    spanning.tier()
    spanning.both("insert into events (id, ts, v) values (9001, '2025-05-01', 1)")
    # In a partition that was moved and is still there, so the same fold marks its correction.
    spanning.both("update events set v = v + 1 where id = 5 returning v")
    _on_delete(spanning, "delete from public.events where id = 5;")
    assert spanning.fold(drain=False).rows == 2
    spanning.twin.execute("delete from events where id = 5")
    spanning.assert_same_rows()
    spanning.seam.execute("drop trigger aaa on public.events")
    spanning.fold()
    spanning.assert_same_rows()


def test_what_a_trigger_changes_while_rows_expire_is_captured(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    spanning.both(
        "insert into events (id, ts, v) values (9001, '2026-01-05', 1), (9002, '2026-03-20', 2), (9003, "
        "'2026-03-21', 3)"
    )
    _on_delete(spanning, "delete from public.events where id = 9002; update public.events set v = 33 where id = 9003;")
    assert spanning.tier().retention_line is not None
    spanning.twin.execute(
        "delete from events where ts < '2026-03-01 00:00+00' or id = 9002; update events set v = 33 where id = 9003"
    )
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()


def test_a_trigger_that_refuses_the_folds_delete_stops_no_fold(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning()
    spanning.tier()
    spanning.both("insert into events (id, ts, v) values (9001, '2025-05-01', 1), (9002, '2025-05-02', 2)")
    _on_delete(spanning, "raise exception 'rows of this table are never deleted';", "before")
    report = spanning.fold()
    assert report.rows == 2
    assert any("rows of this table are never deleted" in note for note in report.notes)
    assert (again := spanning.fold()).rows == 0, again.notes
    spanning.assert_same_rows()
    spanning.both("update events set v = v + 1 where id in (9001, 9002) returning id, v")
    spanning.fold()
    spanning.assert_same_rows()
    spanning.seam.execute("drop trigger aaa on public.events")
    spanning.both("delete from events where id = 9001 returning v")
    spanning.both("update events set v = v + 1 where id = 9002 returning id, v")
    spanning.fold()
    spanning.assert_same_rows()
    assert spanning.query("select count(*) from only thermocline_delta.public__events__spill") == [(0,)]


def test_a_trigger_that_refuses_the_expirys_delete_stops_no_expiry(make_spanning: Callable[..., Spanning]) -> None:
    spanning = make_spanning(lake_retention="30d")
    spanning.tier()
    spanning.both("insert into events (id, ts, v) values (9001, '2026-01-05', 1), (9002, '2026-03-20', 2)")
    _on_delete(spanning, "raise exception 'rows of this table are never deleted';", "before")
    assert spanning.tier().retention_line is not None
    spanning.twin.execute("delete from events where ts < '2026-03-01 00:00+00'")
    spanning.assert_same_rows()
    assert (
        "never deleted"
        in spanning.query("select sentence from thermocline.events where action = 'retain' order by id limit 1")[0][0]
    )
    assert spanning.tier().retention_line is None
    spanning.assert_same_rows()


def test_what_a_trigger_changes_while_rows_move_into_their_partition_is_captured(
    make_spanning: Callable[..., Spanning],
) -> None:
    spanning = make_spanning(premake=1)
    spanning.tier()
    spanning.both(
        "insert into events (id, ts, v) values (9001, '2026-07-05', 1), (9002, '2025-03-20', 2), (9003, "
        "'2025-03-21', 3)"
    )
    _on_delete(
        spanning,
        "delete from public.events where id = 9002; update public.events set v = 33 where id = 9003;"
        " insert into public.events (id, ts, v) values (9004, '2025-03-22', 4);",
    )
    assert spanning.tier().made
    spanning.twin.execute(
        "delete from events where id = 9002; update events set v = 33 where id = 9003;"
        " insert into events (id, ts, v) values (9004, '2025-03-22', 4)"
    )
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()


@pytest.mark.parametrize("action", ["raise exception 'never deleted';", "return null;"], ids=["raises", "says no"])
def test_a_trigger_that_keeps_rows_in_the_spill_stops_no_cycle(
    make_spanning: Callable[..., Spanning], action: str
) -> None:
    spanning = make_spanning(premake=1)
    spanning.both("insert into events (id, ts, v) values (9001, '2026-07-05', 1)")
    _on_delete(spanning, action, "before")
    report = spanning.tier()
    assert any("is made in a later cycle" in sentence for sentence in report.deferred)
    assert report.moved
    spanning.assert_same_rows()
