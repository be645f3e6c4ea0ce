"""Compaction of a registered table: readers on both sides of it, tiering and folding beside it, the twin as oracle."""

from __future__ import annotations

from typing import Any

import pytest
from tests.twin import Spanning

from thermocline.core.maintenance.outcome import Outcome
from thermocline.maintain.run_pass import PassReport, PassRequest, run_pass


def maintain(spanning: Spanning, *operations: Any, **changes: Any) -> PassReport:
    request = PassRequest(operations=operations or ("compact",), **changes)
    return run_pass(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=request)


def compact(spanning: Spanning, **changes: Any) -> Outcome:
    (told,) = maintain(spanning, **changes).outcomes
    return told


def correct(spanning: Spanning, add: int) -> None:
    """Change rows of every cold month, delete some, and fold: new images and position deletes in the lake."""
    spanning.both(f"update events set v = v + {add} where id % 5 = {add % 5} and ts < '2026-04-01'")
    spanning.both(f"delete from events where id % 41 = {add} and ts < '2026-03-01'")
    spanning.fold()


def lake_files(spanning: Spanning) -> tuple[int, int]:
    files = spanning.spark().sql("select content from thermocline.public.events.files").collect()
    return sum(1 for row in files if row[0] == 0), sum(1 for row in files if row[0] != 0)


@pytest.mark.conforms("M-008")
def test_folded_corrections_are_compacted_and_readers_see_the_new_snapshot_at_once(spanning: Spanning) -> None:
    spanning.tier()
    for add in (1, 2, 3):
        correct(spanning, add)
    reader = spanning.session()
    reader.execute("set transaction isolation level repeatable read")
    before = reader.execute("select count(*), sum(v) from events").fetchall()
    data, deletes = lake_files(spanning)
    assert data > 3
    assert deletes > 3
    told = compact(spanning)
    assert told.status == "done", told
    assert told.counters["removed_delete_files"] == deletes
    assert lake_files(spanning) == (3, 0)
    spanning.assert_same_rows()
    assert reader.execute("select count(*), sum(v) from events").fetchall() == before
    published, head = (
        spanning.query("select s from thermocline.cutline")[0][0],
        spanning.spark().sql("select snapshot_id from thermocline.public.events.refs").collect()[0][0],
    )
    assert published == head
    assert compact(spanning).status == "skipped"
    correct(spanning, 4)
    spanning.assert_same_rows()
    assert compact(spanning).status == "done"
    spanning.assert_same_rows()
    assert spanning.query("select count(*) from thermocline.staged_files") == [(0,)]


def test_a_foreign_rewrite_is_adopted_and_a_foreign_append_is_not(spanning: Spanning) -> None:
    spanning.tier()
    correct(spanning, 1)
    spanning.spark().sql(
        "call thermocline.system.rewrite_data_files(table => 'public.events', options => map('rewrite-all', 'true'))"
    )
    spanning.assert_same_rows()
    correct(spanning, 2)
    spanning.assert_same_rows()
    assert spanning.query("select count(*) from thermocline.op_log where kind = 'adopt' and phase = 'published'") == [
        (1,)
    ]
    assert compact(spanning).status == "done"
    spanning.assert_same_rows()
    spanning.spark().sql(
        "insert into thermocline.public.events (id, ts, v) values (77777, timestamp '2026-01-05 00:00:00', 1)"
    )
    correct_later = compact(spanning)
    assert correct_later.status in ("skipped", "failed")
    spanning.assert_same_rows()


@pytest.mark.conforms("M-005")
def test_a_fold_a_tiering_and_a_foreign_rewrite_between_plan_and_commit_cost_no_row(spanning: Spanning) -> None:
    spanning.tier()
    for add in (1, 2):
        correct(spanning, add)
    between = [
        lambda: correct(spanning, 3),
        lambda: (
            spanning.both("insert into events (id, ts, v) values (7001, '2026-05-20 00:00+00', 1)") or spanning.tier()
        ),
        lambda: spanning.spark().sql(
            "call thermocline.system.rewrite_data_files(table => 'public.events', options => "
            "map('rewrite-all', 'true'))"
        ),
    ]
    for action in between:
        waiting = [action]

        def report_progress(line: object, waiting: list[Any] = waiting) -> None:
            if str(line).startswith("compact bin") and waiting:
                waiting.pop()()

        request = PassRequest(operations=("compact",))
        report = run_pass(
            spanning.dsn,
            spanning.name,
            settings=spanning.settings,
            spark=spanning.spark,
            request=request,
            report_progress=report_progress,
        )
        assert not waiting
        assert report.outcomes[0].status in ("done", "failed")
        spanning.assert_same_rows()
        correct(spanning, 4)
        spanning.assert_same_rows()
    assert compact(spanning).status in ("done", "skipped")
    spanning.assert_same_rows()
    spanning.fold()
    spanning.assert_same_rows()
