"""Truncate a spanning table and its twin."""

from __future__ import annotations

from tests.twin import Spanning

from thermocline.ops.truncate import TruncateReport, truncate


def truncate_spanning(spanning: Spanning, *, dry_run: bool = False) -> TruncateReport:
    return truncate(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, dry_run=dry_run)


def truncate_both(spanning: Spanning) -> TruncateReport:
    report = truncate_spanning(spanning)
    spanning.twin.execute("delete from events")  # TRUNCATE would take the rows from older snapshots too
    spanning.assert_same_rows()
    return report


def assert_lake_is_empty(spanning: Spanning) -> None:
    assert spanning.spark().sql("select count(*) from thermocline.public.events").collect()[0][0] == 0
