"""Whole passes over a table that spans: readers profit at once, rows stay those of the twin, a repeated pass does
nothing."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.twin import Spanning

from thermocline.catalog.maintenance.policies import apply_policy
from thermocline.catalog.safety import Owner
from thermocline.catalog.tables import read_table
from thermocline.core.policy.policy_layers import change_policy, parse_changes
from thermocline.maintain.lake_health import read_health
from thermocline.maintain.run_pass import PassReport, PassRequest, run_pass
from thermocline.runtime.pg import connect_as_typed as connect

POLICY = [
    "min_input_files=2",
    "snapshot_min_retained=1",
    "snapshot_retention_ms=1",
    "orphan_sweep_enabled=true",
    "min_manifests_to_rewrite=2",
]


def run(spanning: Spanning, **request: object) -> PassReport:
    asked = PassRequest(**request)  # type: ignore[arg-type]
    return run_pass(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=asked)


def published(spanning: Spanning) -> int:
    ((snapshot,),) = spanning.query("select s from thermocline.cutline")
    return int(snapshot)


@pytest.mark.conforms("M-008")
def test_a_pass_over_a_spanning_table_is_published_and_changes_no_row(spanning: Spanning) -> None:
    spanning.tier()
    for step in (3, 5):
        spanning.both(f"update events set v = v + 1 where id % {step} = 0 and ts < '2026-03-01'")
        spanning.fold()
    with closing(connect(spanning.dsn, autocommit=True)) as conn:
        registered = read_table(conn, spanning.name)
        assert registered is not None
        apply_policy(conn, Owner(table_id=registered.id), lambda before: change_policy(before, parse_changes(POLICY)))
    before = published(spanning)
    report = run(spanning)
    assert report.status == "done", report.sentence
    assert report.sentence.startswith("compact: compacted ")
    assert published(spanning) != before
    spanning.assert_same_rows()
    health = read_health(spanning.dsn, spanning.name, spanning.settings)
    assert (health.stats["delete_files"], health.warnings) == (0, ())
    again = run(spanning, operations=("compact", "rewrite_manifests"))
    assert again.status == "skipped", again.sentence
    spanning.both("update events set v = v + 1 where id = 17")
    spanning.fold()
    spanning.assert_same_rows()
    ops = spanning.query(
        "select phase, count(*) from thermocline.op_log where phase not in ('published', 'abandoned') group by 1"
    )
    assert ops == []


def test_a_paused_table_gets_no_pass(spanning: Spanning) -> None:
    spanning.seam.execute("insert into thermocline.paused (table_id) select id from thermocline.tables")
    with pytest.raises(Exception, match="is paused since"):
        run(spanning)
