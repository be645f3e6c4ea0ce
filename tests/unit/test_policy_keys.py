"""Policy keys: presets, spellings, ranges, and what is refused."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermocline.core.policy.key_types import HOUR_MS, render_value
from thermocline.core.policy.keys import KEYS, PRESETS, SPELLINGS, parse_value, preset_value
from thermocline.core.policy.operations import OPERATIONS, is_enabled, parse_operations, plan_operations
from thermocline.core.policy.policy import Policy
from thermocline.core.policy.policy_layers import PolicyChanges, parse_changes, policy_from_json, policy_to_json
from thermocline.errors.maintenance import (
    BadPolicyValue,
    BadQuietWindow,
    OperationUnknown,
    PolicyKeyUnknown,
    PolicySpellingsDiffer,
)

MB = 1_048_576


def test_every_field_of_a_policy_is_a_key_and_every_key_a_field() -> None:
    assert {field.name for field in fields(Policy)} - {"preset", "own"} == set(KEYS)
    assert all(spelling.field == field for field, spellings in KEYS.items() for spelling in spellings)


@pytest.mark.conforms(
    "M-009",
    "M-010",
    "M-012",
    "M-013",
    "M-014",
    "M-015",
    "M-016",
    "M-017",
    "M-018",
    "M-019",
    "M-020",
    "M-021",
    "M-022",
    "M-023",
)
@pytest.mark.parametrize(
    ("field", "modak", "seaweedfs", "artemis"),
    [
        ("maintenance_enabled", True, False, True),
        ("rewrite_enabled", True, True, True),
        ("delete_compaction_enabled", True, True, True),
        ("manifest_rewrite_enabled", True, True, True),
        ("snapshot_expiry_enabled", True, True, True),
        ("orphan_sweep_enabled", False, True, False),
        ("rewrite_target_bytes", 134_217_728, 256 * MB, 128 * MB),
        ("small_file_threshold_bytes", 0, 0, 33_554_432),
        ("too_large_bytes", 0, 0, 1024 * MB),
        ("rewrite_min_input_files", 8, 5, 2),
        ("min_input_scope", "table", "partition", "partition"),
        ("delete_compaction_min_deletes", 1, 1, 1),
        ("apply_deletes", True, True, True),
        ("manifest_rewrite_min_manifests", 100, 5, 2),
        ("manifest_rewrite_interval_ms", 0, 0, 7 * 24 * HOUR_MS),
        ("snapshot_retention_ms", 24 * HOUR_MS, 168 * HOUR_MS, 24 * HOUR_MS),
        ("snapshot_min_retained", 5, 5, 5),
        ("orphan_grace_ms", 72 * HOUR_MS, 72 * HOUR_MS, 72 * HOUR_MS),
        ("max_commit_retries", 5, 5, 16),
        ("pass_interval_ms", -1, -1, 60_000),
        ("quiet_windows", "", "", "09:00-17:00 UTC"),
        ("latency_threshold_ms", 0, 0, 1000),
    ],
)
def test_presets_hold_the_listed_values(field: str, modak: object, seaweedfs: object, artemis: object) -> None:
    assert tuple(preset_value(preset, field) for preset in PRESETS) == (modak, seaweedfs, artemis)


@pytest.mark.conforms("M-025")
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sort_max_input_mb", "0"),
        ("delete_target_file_size_mb", "64"),
        ("delete_min_input_files", "2"),
        ("delete_max_file_group_size_mb", "256"),
        ("delete_max_output_files", "8"),
        ("delete_ratio_threshold", "0.3"),
        ("where", ""),
        ("table_properties_override", "true"),
    ],
)
def test_further_keys_have_their_defaults_under_their_own_names(name: str, shown: str) -> None:
    spelling = SPELLINGS[name]
    assert all(render_value(spelling, preset_value(preset, spelling.field)) == shown for preset in PRESETS)


@pytest.mark.conforms("M-026")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rewrite_target_bytes=268435456", "target_file_size_mb=256"),
        ("rewrite_min_input_files=5", "min_input_files=5"),
        ("manifest_rewrite_min_manifests=5", "min_manifests_to_rewrite=5"),
        ("snapshot_min_retained=7", "max_snapshots_to_keep=7"),
        ("orphan_grace_hours=96", "orphan_older_than_hours=96"),
        ("snapshot_retention_hours=6", "snapshot_retention_ms=21600000"),
    ],
)
def test_both_spellings_of_a_setting_mean_the_same_and_may_stand_together_when_they_agree(one: str, other: str) -> None:
    assert parse_changes([one]) == parse_changes([other]) == parse_changes([one, other])


@pytest.mark.conforms("M-026")
def test_two_spellings_with_different_values_are_refused_naming_both() -> None:
    with pytest.raises(PolicySpellingsDiffer, match="rewrite_target_bytes=1000 and target_file_size_mb=256"):
        parse_changes(["rewrite_target_bytes=1000", "target_file_size_mb=256"])


@pytest.mark.conforms("O-124")
def test_an_unknown_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(PolicyKeyUnknown, match="unknown policy key 'no_such_key'") as refusal:
        parse_value("no_such_key", "1")
    assert refusal.value.exit_code == 2
    with pytest.raises(PolicyKeyUnknown, match="'snapshot_retention_hour'; the nearest is 'snapshot_retention_hours'"):
        parse_value("snapshot_retention_hour", "1")


@pytest.mark.conforms("O-125", "M-028")
@pytest.mark.parametrize("text", ["abc", "-1", "1e9", "", "0", "1.5", "2147483648", "١"])
def test_a_wrong_number_is_refused_with_the_permitted_range(text: str) -> None:
    with pytest.raises(BadPolicyValue, match="a whole number from 1 to 876000") as refusal:
        parse_value("snapshot_retention_hours", text)
    assert refusal.value.exit_code == 2
    with pytest.raises(BadPolicyValue, match="a whole number from 1 to 2147483647"):
        parse_value("snapshot_min_retained", text)


@pytest.mark.conforms("M-016", "M-019", "M-023", "M-024")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("min_input_files", "1"),
        ("min_manifests_to_rewrite", "1"),
        ("max_commit_retries", "21"),
        ("max_commit_retries", "0"),
        ("rewrite_strategy", "binpakc"),
        ("rewrite_strategy", "BINPACK"),
        ("rewrite_enabled", "maybe"),
        ("delete_ratio_threshold", "1.1"),
        ("delete_ratio_threshold", "nan"),
        ("bandwidth_share", "0"),
        ("sealed_after", "1 fortnight"),
        ("orphan_grace_hours", "999999999"),
    ],
)
def test_values_out_of_their_range_are_refused(name: str, text: str) -> None:
    with pytest.raises(BadPolicyValue, match=name):
        parse_value(name, text)


VALUES = (
    st.integers(-5, 2**33)
    | st.floats(allow_nan=True)
    | st.booleans()
    | st.text()
    | st.from_regex(r"[0-9]{1,6}(ms|s|m|h|d)", fullmatch=True)
)


@given(st.sampled_from(sorted(SPELLINGS)), VALUES)
def test_what_is_accepted_is_shown_as_it_may_be_given_again(name: str, given_value: object) -> None:
    try:
        spelling, value = parse_value(
            name, str(given_value).lower() if isinstance(given_value, bool) else str(given_value)
        )
    except (BadPolicyValue, OperationUnknown, BadQuietWindow):
        return
    stored = PolicyChanges(values={spelling.field: value})
    assert policy_from_json(json.loads(json.dumps(policy_to_json(stored)))) == stored
    if spelling.kind in ("bool", "int", "float", "choice", "duration"):
        again = parse_value(name, render_value(spelling, value))[1]
        assert again == pytest.approx(value) if isinstance(value, float) else again == value


@pytest.mark.conforms("M-116", "M-117")
def test_operations_run_in_the_presets_order_whatever_was_typed() -> None:
    typed = "rewrite_manifests, remove_orphans ,expire_snapshots,rewrite_position_delete_files,compact,convert_deletes"
    asked = parse_operations(typed)
    deletes = ("convert_deletes", "compact", "rewrite_position_delete_files")
    assert plan_operations(Policy(preset="seaweedfs"), asked) == (
        *deletes,
        "expire_snapshots",
        "remove_orphans",
        "rewrite_manifests",
    )
    assert plan_operations(Policy(preset="modak"), asked) == (
        *deletes,
        "rewrite_manifests",
        "expire_snapshots",
        "remove_orphans",
    )


@pytest.mark.conforms("M-118", "O-128", "M-011")
def test_one_two_or_all_operations_are_planned_and_an_unknown_one_is_refused() -> None:
    policy = Policy(preset="seaweedfs")
    assert plan_operations(policy, parse_operations("compact")) == ("compact",)
    assert plan_operations(policy, parse_operations("remove_orphans, expire_snapshots")) == (
        "expire_snapshots",
        "remove_orphans",
    )
    for text in ("", " ", "all", ","):
        planned = plan_operations(policy, parse_operations(text))
        assert [
            name for name in planned if name in ("compact", "expire_snapshots", "remove_orphans", "rewrite_manifests")
        ] == [
            "compact",
            "expire_snapshots",
            "remove_orphans",
            "rewrite_manifests",
        ]
    with pytest.raises(OperationUnknown, match="unknown operation 'foo'"):
        parse_operations("compact,foo")


@pytest.mark.conforms("M-039")
def test_with_rewriting_left_to_others_only_expiry_runs() -> None:
    policy = Policy(rewrite_enabled=False, delete_compaction_enabled=False, manifest_rewrite_enabled=False)
    assert {name for name in OPERATIONS if is_enabled(policy, name)} == {"expire_snapshots", "prune_metadata"}
