"""Lake health: figures, debt, warnings."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from thermocline.core.maintenance.health import (
    MB,
    NOT_KEEPING_UP,
    HealthFacts,
    find_warnings,
    histogram,
    measure,
    render_warnings,
)
from thermocline.core.policy.policy import Policy

FACTS = HealthFacts(
    sizes_bytes=(MB,) * 10 + (200 * MB,),
    records=1100,
    delete_files=0,
    deleted_records=0,
    snapshots=4,
    manifests=3,
    oldest_snapshot_ms=1_000_000,
    newest_commit_ms=5_000_000,
    last_compaction_ms=2_000_000,
    depth=1.0,
    depth_column="ts",
)


def test_small_files_debt_and_lag_are_measured_by_the_policy() -> None:
    health = measure(FACTS, Policy())
    assert (health.files, health.small_files, health.small_bytes, health.records) == (11, 10, 10 * MB, 1100)
    assert health.debt_score == 9  # ten files that fit into one
    assert health.compaction_lag_seconds == 3000
    assert health.oldest_snapshot == "1970-01-01T00:16:40+00:00"
    assert measure(FACTS, Policy(small_file_threshold_bytes=MB)).small_files == 0
    assert measure(FACTS, Policy(too_large_bytes=100 * MB)).too_large_files == 1
    assert measure(replace(FACTS, sizes_bytes=(200 * MB,)), Policy()).compaction_lag_seconds == 0


def test_a_table_that_gains_more_per_byte_ranks_higher() -> None:
    many_tiny = measure(replace(FACTS, sizes_bytes=(MB // 100,) * 500), Policy())
    one_huge = measure(replace(FACTS, sizes_bytes=(120 * MB,) * 500), Policy())
    assert many_tiny.gain_per_mb > one_huge.gain_per_mb


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({}, []),
        ({"delete_files": 3}, []),  # 27 %
        ({"delete_files": 4}, ["delete_debt"]),  # 36 % of 11 files
        ({"delete_files": 4, "sizes_bytes": (MB,) * 7}, []),  # fewer than 8 files
        ({"manifests": 99}, []),
        ({"manifests": 100}, ["manifest_sprawl"]),
        ({"foreign_commits": ("snapshot 7 (append)",)}, ["foreign snapshot 7 (append)"]),
    ],
)
def test_warnings_come_at_their_thresholds(changes: dict[str, object], keys: list[str]) -> None:
    facts = replace(FACTS, **changes)  # type: ignore[arg-type]
    assert [warning.key for warning in find_warnings(measure(facts, Policy()), facts)] == keys


@pytest.mark.conforms("M-042")
def test_a_persistent_warning_where_the_pass_is_disabled_is_laid_to_the_external_maintenance() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    kept = {
        "delete_debt": {"sentence": "delete-file debt: 9 delete files", "since": (now - timedelta(hours=2)).isoformat()}
    }
    hour = timedelta(hours=1)
    off = Policy(maintenance_enabled=False)
    assert render_warnings(kept, off, now, hour) == [f"{NOT_KEEPING_UP}: delete-file debt: 9 delete files"]
    left_to_others = Policy(rewrite_enabled=False, delete_compaction_enabled=False)
    assert render_warnings(kept, left_to_others, now, hour)[0].startswith(NOT_KEEPING_UP)
    assert render_warnings(kept, Policy(), now, hour) == ["delete-file debt: 9 delete files"]
    assert render_warnings(kept, off, now - timedelta(minutes=90), hour) == ["delete-file debt: 9 delete files"]


def test_the_histogram_counts_every_file_once() -> None:
    assert histogram([0, MB - 1, MB, 5 * MB, 2000 * MB]) == (2, 1, 1, 0, 0, 0, 0, 0, 0, 1)
