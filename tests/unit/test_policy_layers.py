"""Policy layers: who wins, and what is said about it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from thermocline.core.policy.key_types import DAY_MS, HOUR_MS
from thermocline.core.policy.policy_layers import (
    EXPIRY_OFF,
    NOTHING,
    PolicyChanges,
    PolicyLayers,
    ResolvedPolicy,
    change_policy,
    parse_changes,
    policy_from_json,
    policy_to_json,
    render_policy,
    resolve_policy,
)
from thermocline.core.policy.s3_tables import parse_s3_tables
from thermocline.errors import BadSetting
from thermocline.errors.maintenance import BadPolicyValue, PolicyKeyUnknown
from thermocline.maintain.targets import environment_layer, environment_names
from thermocline.runtime.settings_layers import load_settings

EMPTY = PolicyLayers(
    environment=NOTHING, environment_names={}, catalog=NOTHING, namespace=NOTHING, properties={}, table=NOTHING
)


def resolved(**layers: Any) -> ResolvedPolicy:
    return resolve_policy(replace(EMPTY, **layers))


def source_of(found: ResolvedPolicy, key: str) -> tuple[str, str, str]:
    return next((line.value, line.origin, line.source) for line in found.lines if line.key == key)


@pytest.mark.conforms("M-029")
def test_each_layer_wins_over_those_below_it() -> None:
    layers: dict[str, Any] = {}
    seen = []
    for name, value in [
        ("environment", parse_changes(["snapshot_min_retained=11"])),
        ("catalog", parse_changes(["snapshot_min_retained=12"])),
        ("namespace", parse_changes(["snapshot_min_retained=13"])),
        ("properties", {"history.expire.min-snapshots-to-keep": "14"}),
        ("table", parse_changes(["snapshot_min_retained=15"])),
    ]:
        layers[name] = value
        names = {"snapshot_min_retained": "environment THERMOCLINE_SNAPSHOT_MIN_RETAINED"}
        seen.append(source_of(resolved(**layers, environment_names=names), "snapshot_min_retained"))
    assert seen == [
        ("11", "(default)", "environment THERMOCLINE_SNAPSHOT_MIN_RETAINED"),
        ("12", "(default)", "catalog policy"),
        ("13", "(default)", "namespace policy"),
        ("14", "(default)", "table property history.expire.min-snapshots-to-keep"),
        ("15", "(table)", "table"),
    ]


@pytest.mark.conforms("M-029")
def test_table_properties_override_false_lets_the_properties_win() -> None:
    properties = {"write.target-file-size-bytes": "1000000"}
    table = parse_changes(["rewrite_target_bytes=2000000"])
    assert resolved(properties=properties, table=table).policy.rewrite_target_bytes == 2_000_000
    swapped = parse_changes(["rewrite_target_bytes=2000000", "table_properties_override=false"])
    assert resolved(properties=properties, table=swapped).policy.rewrite_target_bytes == 1_000_000


@pytest.mark.conforms("M-030")
def test_table_properties_are_honoured_to_the_millisecond_and_unreadable_ones_warned_of_once() -> None:
    found = resolved(
        properties={
            "write.target-file-size-bytes": "536870912",
            "write.delete.target-file-size-bytes": "1048576",
            "history.expire.max-snapshot-age-ms": "90001",
            "history.expire.min-snapshots-to-keep": "three",
            "commit.manifest.target-size-bytes": "-5",
        }
    )
    policy = found.policy
    assert (policy.rewrite_target_bytes, policy.delete_target_bytes, policy.snapshot_retention_ms) == (
        536_870_912,
        1_048_576,
        90_001,
    )
    assert (policy.snapshot_min_retained, policy.manifest_target_bytes) == (5, 8_388_608)
    assert [warning.split(" ")[2] for warning in found.warnings] == [
        "history.expire.min-snapshots-to-keep",
        "commit.manifest.target-size-bytes",
    ]


@pytest.mark.conforms("M-009", "M-036")
def test_maintenance_is_switched_off_by_the_environment_and_on_again_by_one_table() -> None:
    off = parse_changes(["maintenance_enabled=false"])
    names = {"maintenance_enabled": "environment THERMOCLINE_MAINTENANCE_ENABLED"}
    assert resolved().policy.maintenance_enabled
    assert not resolved(environment=off, environment_names=names).policy.maintenance_enabled
    on = parse_changes(["maintenance_enabled=true"])
    assert resolved(environment=off, environment_names=names, table=on).policy.maintenance_enabled
    assert not resolved(table=PolicyChanges(values={}, preset="seaweedfs")).policy.maintenance_enabled
    assert resolved(table=PolicyChanges(values={}, preset="artemis")).policy.maintenance_enabled


@pytest.mark.conforms("M-027")
def test_a_preset_changes_every_unset_default_and_leaves_overrides_alone() -> None:
    stored = change_policy(parse_changes(["snapshot_min_retained=9"]), parse_changes([], preset="seaweedfs"))
    found = resolved(table=stored)
    assert found.policy.preset == "seaweedfs"
    assert source_of(found, "rewrite_target_bytes") == ("268435456", "(default)", "preset seaweedfs")
    assert source_of(found, "snapshot_min_retained") == ("9", "(table)", "table")


@pytest.mark.conforms("M-031")
def test_the_view_has_every_key_with_its_value_and_origin() -> None:
    text = render_policy(resolved(table=parse_changes(["snapshot_retention_hours=6"])))
    assert any(line.split() == ["snapshot_retention_hours", "6", "(table)"] for line in text)
    assert any(line.split() == ["rewrite_target_bytes", "134217728", "(default)", "preset", "modak"] for line in text)
    assert all("(table)" in line or "(default)" in line for line in text)


@pytest.mark.conforms("M-040")
def test_expiry_switched_off_is_permitted_and_warned_of() -> None:
    found = resolved(table=parse_changes(["snapshot_expiry_enabled=false"]))
    assert not found.policy.snapshot_expiry_enabled
    assert render_policy(found)[-1] == f"warning: {EXPIRY_OFF}"


@pytest.mark.conforms("M-032")
def test_set_unset_and_reset_change_the_layer_together_or_not_at_all() -> None:
    stored = change_policy(NOTHING, parse_changes(["snapshot_retention_hours=6", "min_input_files=3"]))
    assert stored.values == {"snapshot_retention_ms": 6 * HOUR_MS, "rewrite_min_input_files": 3}
    assert change_policy(stored, NOTHING, ["min_input_files"]).values == {"snapshot_retention_ms": 6 * HOUR_MS}
    assert change_policy(stored, NOTHING, reset=True) == NOTHING
    with pytest.raises(PolicyKeyUnknown):
        change_policy(stored, NOTHING, ["min_input_file"])
    with pytest.raises(BadPolicyValue):
        parse_changes(["snapshot_retention_hours=7", "min_input_files=0"])


def test_a_stored_policy_reads_back_as_it_was() -> None:
    pairs = [
        "target_file_size_mb=4096",
        "operations=compact, expire_snapshots",
        "sealed_after=off",
        "where=day = '2026-01-01'",
    ]
    pairs += ["delete_ratio_threshold=0.5", "rebase=no", "zorder_columns=a,b", "quiet_windows=09:00-17:00 UTC"]
    stored = parse_changes(pairs, preset="artemis")
    assert policy_from_json(json.loads(json.dumps(policy_to_json(stored)))) == stored


@pytest.mark.conforms("M-028")
@pytest.mark.parametrize(
    "stored",
    [
        {"nonsense": 1},
        {"preset": "x"},
        {"rewrite_strategy": "x"},
        {"delete_ratio_threshold": 7},
        {"snapshot_min_retained": -5},
    ],
)
def test_a_policy_that_no_pass_could_run_is_not_read_back(stored: dict[str, Any]) -> None:
    with pytest.raises((BadPolicyValue, PolicyKeyUnknown)):
        policy_from_json(stored)


@pytest.mark.conforms("M-034")
def test_settings_in_the_s3_tables_style_are_a_layer_of_the_policy() -> None:
    changes = parse_s3_tables(
        {
            "icebergCompaction": {
                "status": "enabled",
                "settings": {"icebergCompaction": {"targetFileSizeMB": 256, "strategy": "z-order"}},
            },
            "icebergSnapshotManagement": {
                "status": "disabled",
                "settings": {"icebergSnapshotManagement": {"minSnapshotsToKeep": 10, "maxSnapshotAgeHours": 250}},
            },
            "icebergUnreferencedFileRemoval": {
                "status": "enabled",
                "settings": {"icebergUnreferencedFileRemoval": {"unreferencedDays": 4, "nonCurrentDays": 10}},
            },
        }
    )
    properties = {"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"}
    policy = resolved(table=changes, properties=properties).policy
    assert (policy.rewrite_target_bytes, policy.rewrite_strategy) == (256 * 1_048_576, "zorder")
    assert (policy.snapshot_min_retained, policy.snapshot_retention_ms) == (10, 250 * HOUR_MS)
    assert (policy.orphan_sweep_enabled, policy.orphan_grace_ms) == (True, 14 * DAY_MS)
    assert not policy.snapshot_expiry_enabled
    off = parse_s3_tables({"icebergCompaction": {"status": "disabled"}})
    assert off.values == {"rewrite_enabled": False, "delete_compaction_enabled": False}
    wrongs: list[object] = [[], {"icebergX": {}}, {"icebergCompaction": {"status": "on"}}]
    for wrong in wrongs:
        with pytest.raises(BadPolicyValue):
            parse_s3_tables(wrong)


@pytest.mark.conforms("M-034")
@pytest.mark.parametrize(
    ("response", "values"),
    [
        (
            """{
    "tableARN": "arn:aws:s3tables:us-east-1:111122223333:bucket/b/table/8a1b2c3d-0000-4000-8000-000000000000",
    "configuration": {
        "icebergCompaction": {
            "status": "enabled",
            "settings": {"icebergCompaction": {"targetFileSizeMB": 512, "strategy": "auto"}}
        },
        "icebergSnapshotManagement": {
            "status": "enabled",
            "settings": {"icebergSnapshotManagement": {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 120}}
        }
    }
}""",
            {
                "rewrite_enabled": True,
                "delete_compaction_enabled": True,
                "rewrite_target_bytes": 512 * 1_048_576,
                "rewrite_strategy": "auto",
                "snapshot_expiry_enabled": True,
                "snapshot_min_retained": 1,
                "snapshot_retention_ms": 120 * HOUR_MS,
            },
        ),
        (
            """{
    "tableBucketARN": "arn:aws:s3tables:us-east-1:111122223333:bucket/b",
    "configuration": {
        "icebergUnreferencedFileRemoval": {
            "status": "enabled",
            "settings": {"icebergUnreferencedFileRemoval": {"unreferencedDays": 3, "nonCurrentDays": 10}}
        }
    }
}""",
            {"orphan_sweep_enabled": True, "orphan_grace_ms": 13 * DAY_MS},
        ),
    ],
)
def test_a_response_of_s3_tables_is_taken_as_the_aws_cli_prints_it(response: str, values: dict[str, object]) -> None:
    document = json.loads(response)
    assert parse_s3_tables(document).values == values
    assert parse_s3_tables(document | {"ResponseMetadata": {"HTTPStatusCode": 200}}).values == values
    assert parse_s3_tables(document["configuration"]).values == values


@pytest.mark.parametrize("wrong", [{"configuration": []}, {"configuration": {}, "icebergCompaction": {}}])
def test_a_response_of_another_form_is_refused(wrong: object) -> None:
    with pytest.raises(BadPolicyValue):
        parse_s3_tables(wrong)


@pytest.mark.conforms("M-002", "O-036")
def test_the_environment_names_engine_preset_and_policy_defaults_and_wrong_ones_fail_at_start() -> None:
    with pytest.raises(BadSetting, match="unknown THERMOCLINE_MAINTENANCE_ENGINE 'flink'"):
        load_settings({}, {"THERMOCLINE_MAINTENANCE_ENGINE": "flink"})
    with pytest.raises(BadSetting, match="unknown policy key 'rewrite_taget_bytes'"):
        load_settings({}, {"THERMOCLINE_MAINTENANCE_POLICY": "rewrite_taget_bytes=1"})
    given = {
        "THERMOCLINE_MAINTENANCE_ENABLED": "false",
        "THERMOCLINE_MAINTENANCE_PRESET": "artemis",
        "THERMOCLINE_REWRITE_TARGET_BYTES": "1000",
        "THERMOCLINE_REWRITE_MIN_INPUT_FILES": "3",
        "THERMOCLINE_SNAPSHOT_RETENTION_HOURS": "6",
        "THERMOCLINE_SNAPSHOT_MIN_RETAINED": "7",
        "THERMOCLINE_MAINTENANCE_POLICY": "max_commit_retries=9; rewrite_target_bytes=5",
    }
    settings = load_settings({}, given).values
    found = resolved(environment=environment_layer(settings), environment_names=environment_names(settings))
    policy = found.policy
    assert (policy.preset, policy.maintenance_enabled, policy.rewrite_target_bytes) == ("artemis", False, 1000)
    assert (policy.rewrite_min_input_files, policy.snapshot_retention_ms, policy.snapshot_min_retained) == (
        3,
        6 * HOUR_MS,
        7,
    )
    assert source_of(found, "max_commit_retries") == ("9", "(default)", "environment THERMOCLINE_MAINTENANCE_POLICY")
    assert source_of(found, "rewrite_target_bytes")[2] == "environment THERMOCLINE_REWRITE_TARGET_BYTES"
