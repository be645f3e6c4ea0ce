"""The kill matrix of maintenance: SIGKILL between every two steps of a pass, writes before the next one, then equal to
the twin."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from psycopg.types.json import Jsonb
from tests.faults.kills import EAGER_POLICY, kill_at, write_everywhere
from tests.faults.points import MAINTENANCE
from tests.twin import Spanning

from thermocline.maintain.janitor import remove_stray_files
from thermocline.maintain.run_pass import PassReport, PassRequest, run_pass
from thermocline.runtime.locations import without_file_scheme
from thermocline.runtime.pg import connect_as_typed as connect


def maintain(spanning: Spanning) -> PassReport:
    return run_pass(
        spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark, request=PassRequest()
    )


@pytest.mark.conforms("M-130", "M-153")
@pytest.mark.parametrize("point", MAINTENANCE)
def test_a_pass_killed_at_any_step_loses_nothing_and_the_next_one_finishes_it(spanning: Spanning, point: str) -> None:
    spanning.seam.execute("update thermocline.tables set maintenance_policy = %s", [Jsonb(EAGER_POLICY)])
    spanning.tier()
    write_everywhere(spanning, 1)
    spanning.fold()
    spanning.spark().sql(
        "alter table thermocline.public.events set tblproperties ('history.expire.max-snapshot-age-ms'='1')"
    )
    assert kill_at(spanning, point, "maintain_child") == -signal.SIGKILL
    spanning.assert_same_rows()
    write_everywhere(spanning, 2)
    spanning.fold()
    spanning.assert_same_rows()
    report = maintain(spanning)
    assert report.status != "failed", report.sentence
    spanning.assert_same_rows()
    spanning.tier()
    maintain(spanning)
    spanning.assert_same_rows()
    assert_nothing_left_over(spanning)


def assert_nothing_left_over(spanning: Spanning) -> None:
    """Every op is finished, and every file on storage is in the table, or gone after the janitor."""
    assert (
        spanning.query(
            "select op_id, kind, phase from thermocline.op_log where phase not in ('published', 'abandoned')"
        )
        == []
    )
    with connect(spanning.dsn, autocommit=True) as conn:
        remove_stray_files(conn, grace_seconds=0)
    assert spanning.query("select path from thermocline.staged_files") == []
    assert spanning.query("select path from thermocline.doomed_files") == []
    rows = spanning.spark().sql("select file_path from thermocline.public.events.all_files").collect()
    known = {without_file_scheme(row.file_path) for row in rows}
    present = {str(path) for path in Path(spanning.settings.warehouse_location).rglob("*.parquet")}
    assert present == known
