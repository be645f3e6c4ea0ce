"""Folding against writers, readers, kinds of keys and odd histories: the same rows before and after, in the lake alone at the end."""

from __future__ import annotations

import pytest
from tests.twin import Spanning

DELTA = "thermocline_delta.public__events"


def cold(spanning: Spanning) -> Spanning:
    """Three months in the lake and none of them in the heap."""
    spanning.tier()
    assert len(spanning.tier().deferred) == 0
    return spanning


def correct(spanning: Spanning) -> None:
    """Updates, deletes, historical inserts and moves between months and tiers, all of them below the cut-line."""
    spanning.both("update events set v = v + 1000, note = 'corrected', tags = array['x', null], doc = '{\"a\": [1.50]}' where id in (17, 130, 300)")
    spanning.both("update events set amount = 9999999999.99, note = null where id between 40 and 60")
    spanning.both("delete from events where id in (18, 140, 310)")
    spanning.both("insert into events (id, ts, v) values (9001, '2024-11-16 12:00+00', 5), (9002, '2026-01-16 12:00:00.000001+00', 6)")
    spanning.both("update events set ts = ts + interval '1 month' where id in (20, 21)")
    spanning.both("update events set ts = '2026-04-20 00:00+00' where id = 22")


def assert_folded(spanning: Spanning) -> None:
    """Nothing is pending or spilled below the cut-line, and the lake alone holds exactly the twin's rows below it."""
    spanning.assert_same_rows()
    assert spanning.query(f"select count(*) from {DELTA} where _folded is null and ts < '2026-04-01 00:00+00'") == [(0,)]
    assert spanning.query("select count(*) from public.events where ts < '2026-04-01 00:00+00'") == [(0,)]
    lake = spanning.spark().sql("select count(*), sum(v), sum(id), sum(amount), count(note) from thermocline.public.events").collect()
    (expected,) = spanning.twin.execute(
        "select count(*), sum(v), sum(id), sum(amount), count(note) from events where ts < '2026-04-01 00:00+00'"
    ).fetchall()
    assert tuple(lake[0]) == expected


@pytest.mark.conforms("C-122", "C-130", "C-135")
def test_corrections_read_the_same_before_and_after_the_fold(spanning: Spanning) -> None:
    cold(spanning)
    correct(spanning)
    spanning.assert_same_rows()
    pending = spanning.query(f"select count(*) from {DELTA} where _folded is null and ts < '2026-04-01 00:00+00'")[0][0]
    before = spanning.query("select t, epoch from thermocline.cutline")
    report = spanning.fold()
    assert (report.commits, report.rows, report.left) == (1, pending, 0)
    assert spanning.query("select t, epoch from thermocline.cutline") == before
    assert spanning.query("select s from thermocline.cutline") == [(report.snapshot,)]
    assert_folded(spanning)
    assert spanning.query(f"select count(*) from {DELTA} where ts < '2026-04-01 00:00+00'") == [(0,)]
    assert spanning.fold().commits == 0
