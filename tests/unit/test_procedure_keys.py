"""The engine of Iceberg's own procedures refuses what it would leave out: every key is handed on, honoured before, or
named."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from thermocline.core.policy.keys import PRESET_VALUES, PRESETS
from thermocline.core.policy.policy import Policy
from thermocline.core.policy.procedure_keys import find_not_honoured
from thermocline.errors.maintenance import EngineUnsuitable
from thermocline.maintain.engines.procedures import PROCEDURES, check_keys

SAID: dict[str, Any] = {
    "where": "region = 'eu'",
    "sort_order": "id desc",
    "sort_max_input_bytes": 1 << 30,
    "apply_deletes": False,
    "rewrite_enabled": False,
    "rebase": False,
    "sealed_after_ms": 3_600_000,
    "bandwidth_share": 0.3,
    "max_read_mb_per_s": 5.0,
    "max_write_mb_per_s": 5.0,
    "max_iops": 100.0,
    "quiet_windows": "09:00-17:00 UTC",
    "latency_threshold_ms": 100.0,
    "min_input_scope": "partition",
    "splice_min_row_group_bytes": 1,
    "compression_level": 9,
    "partial_progress_commits": 3,
    "max_commit_retries": 2,
    "rewrite_strategy": "hilbert",
}
HANDED_ON = (
    *(
        "rewrite_target_bytes",
        "small_file_threshold_bytes",
        "too_large_bytes",
        "rewrite_min_input_files",
        "max_parallel_tasks",
    ),
    *("delete_compaction_enabled", "delete_compaction_min_deletes", "delete_ratio_threshold", "zorder_columns"),
)
ELSEWHERE = (
    *(
        "preset",
        "maintenance_enabled",
        "operations",
        "manifest_rewrite_enabled",
        "snapshot_expiry_enabled",
        "orphan_sweep_enabled",
    ),
    *(
        "snapshot_retention_ms",
        "snapshot_min_retained",
        "orphan_grace_ms",
        "orphan_quarantine_ms",
        "pass_interval_ms",
        "own",
    ),
    *(
        "manifest_rewrite_min_manifests",
        "manifest_target_bytes",
        "manifest_rewrite_interval_ms",
        "bandwidth_mb_per_s",
        "latency_query",
    ),
    *("delete_target_bytes", "delete_min_input_files", "delete_max_group_bytes", "delete_max_output_files"),
    *("op_log_retention_days", "table_properties_override"),
)
"""Keys of other operations, of scheduling, or that say nothing without another."""


def test_every_key_is_handed_on_or_refused_or_belongs_elsewhere() -> None:
    assert {field.name for field in fields(Policy)} == {*SAID, *HANDED_ON, *ELSEWHERE}


@pytest.mark.parametrize("key", SAID)
def test_a_key_that_cannot_be_honoured_is_refused_with_its_name_and_what_to_do(key: str) -> None:
    with pytest.raises(EngineUnsuitable) as refusal:
        check_keys(replace(Policy(), **{key: SAID[key]}), "compact", "lab.readings")
    name = {"sort_max_input_bytes": "sort_max_input_mb", "sealed_after_ms": "sealed_after"}.get(key, key)
    assert f"cannot honour {name}=" in refusal.value.message
    assert "Use the engine spark" in (refusal.value.hint or "")
    assert f"{name}=" in (refusal.value.hint or "")


def test_a_policy_that_nobody_changed_runs_and_one_whose_preset_paces_does_not() -> None:
    for operation in PROCEDURES:
        assert find_not_honoured(Policy(), operation) == ()
    odd = {
        preset: [
            key.name
            for key in find_not_honoured(Policy(preset=preset, **dict[str, Any](PRESET_VALUES[preset])), "compact")
        ]
        for preset in PRESETS
    }
    assert odd == {
        "modak": [],
        "seaweedfs": ["rebase"],
        "artemis": ["bandwidth_share", "quiet_windows", "latency_threshold_ms"],
    }


def test_what_is_advised_can_be_given() -> None:
    policy = replace(Policy(), **SAID)
    with pytest.raises(EngineUnsuitable) as refusal:
        check_keys(policy, "compact", "lab.readings")
    hint = refusal.value.hint or ""
    assert "thermocline policy lab.readings" in hint
    assert "--set where=" in hint
    assert "--set sealed_after=off" in hint
    assert "--set bandwidth_share=1" in hint
    assert "--set rewrite_strategy=zorder" in hint
