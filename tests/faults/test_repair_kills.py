"""The kill matrix of repaired manifests: SIGKILL between every two steps, then the next writer decides the op and rows
are found."""

from __future__ import annotations

import os
import signal

import pytest
from tests.e2e.wrong_bounds import plan_wrong_metrics
from tests.faults.kills import kill_at
from tests.twin import Spanning

from thermocline.lake.commit import compare_and_swap as commit
from thermocline.maintain.manifest_repair import repair_table_manifests
from thermocline.ops.verify.verify_table import verify

EVERY = ("repair_manifests-intent", "repair_manifests-committed", "repair_manifests-published")
POINTS = EVERY if os.environ.get("THERMOCLINE_TEST_ALL_FAULTS") else EVERY[1:2]


@pytest.mark.parametrize("point", POINTS)
def test_a_repair_killed_at_any_step_is_decided_by_the_next_one(
    spanning: Spanning, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(commit, "plan_metrics", plan_wrong_metrics)
        spanning.tier()
    assert len(verify(spanning.dsn, spanning.name).manifests) == 3
    assert kill_at(spanning, point, "repair_child") == -signal.SIGKILL
    spanning.assert_same_rows()
    done = repair_table_manifests(spanning.dsn, spanning.name, settings=spanning.settings, spark=spanning.spark)
    assert done.files == (3 if point.endswith("-intent") else 0)
    spanning.both("update events set v = v + 1 where id % 7 = 0")
    spanning.fold()
    spanning.assert_same_rows()
    assert verify(spanning.dsn, spanning.name).is_exact
    assert (
        spanning.query(
            "select op_id, kind, phase from thermocline.op_log where phase not in ('published', 'abandoned')"
        )
        == []
    )
