"""A smoke test of the whole system: register, tier, read and write across both tiers, equal to the twin at every
step."""

from __future__ import annotations

import pytest
from tests.twin import Spanning


@pytest.mark.conforms("C-001", "C-008", "C-020", "C-040", "C-041", "C-111")
def test_reads_and_writes_across_both_tiers_equal_an_ordinary_table(spanning: Spanning) -> None:
    spanning.assert_same_rows()
    report = spanning.tier()
    assert [name.split("_")[-1] for name in report.moved] == ["01", "02", "03"]
    spanning.assert_same_rows()
    spanning.tier()
    assert spanning.query("select min(ts) >= '2026-04-01' from public.events") == [(True,)]
    spanning.both("select count(*), sum(v), min(ts), max(ts), sum(amount) from events")
    spanning.both("update events set v = v + 1000, note = 'corrected' where id = 17 returning *")
    spanning.both("delete from events where id = 18 returning id, ts, v")
    spanning.both("insert into events (id, ts, v) values (9001, '2024-11-16 12:00+00', 5) returning *")
    spanning.both("insert into events (id, ts, v) values (9002, '2026-04-20 12:00+00', 6) returning *")
    spanning.both("select a.id, b.v from events a join events b on b.id = a.id + 1 where a.v % 50 = 0")
    spanning.assert_same_rows()
