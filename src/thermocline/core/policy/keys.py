"""Every key of a policy of an Iceberg table: its spellings, its type, its range, and its value in each preset.

A key is a field of `Policy`; two systems may name it differently and count it in other units, so each spelling carries
the factor to the field's own unit. Values are checked here, when they are given, so that a policy read back from the
catalog is one that a pass can run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Literal

from thermocline.core.policy.formats import added_spellings
from thermocline.core.policy.key_types import DAY_MS, LARGEST, LONGEST_HOURS, Spelling, Value, parse_as
from thermocline.core.policy.operations import parse_operations
from thermocline.core.policy.policy import HOUR_MS, Policy
from thermocline.core.policy.quiet_windows import parse_quiet_windows
from thermocline.errors.maintenance import PolicyKeyUnknown

Preset = Literal["modak", "seaweedfs", "artemis"]
PRESETS: tuple[Preset, ...] = ("modak", "seaweedfs", "artemis")
MB = 1_048_576
GB = 1024 * MB


def _flag(name: str) -> tuple[Spelling, ...]:
    return (Spelling(name=name, field=name, kind="bool"),)


def _count(field: str, *others: str, lowest: int = 1, highest: int = LARGEST) -> tuple[Spelling, ...]:
    return tuple(
        Spelling(name=name, field=field, kind="int", lowest=lowest, highest=highest) for name in (field, *others)
    )


def _size(field: str, in_mb: str, lowest: int = 1) -> tuple[Spelling, ...]:
    return (
        Spelling(name=field, field=field, kind="int", lowest=lowest),
        Spelling(name=in_mb, field=field, kind="int", factor=MB, lowest=lowest),
    )


def _hours(field: str, *names: str, lowest: int = 1) -> tuple[Spelling, ...]:
    longest = Spelling(name=field, field=field, kind="int", lowest=lowest, highest=LONGEST_HOURS * HOUR_MS)
    in_hours = (
        Spelling(name=n, field=field, kind="int", factor=HOUR_MS, lowest=lowest, highest=LONGEST_HOURS) for n in names
    )
    return (*in_hours, longest)


def _rate(field: str, highest: float = 1_000_000) -> tuple[Spelling, ...]:
    return (Spelling(name=field, field=field, kind="float", lowest=0, highest=highest),)


def _text(field: str, check: Callable[[str], object] | None = None) -> tuple[Spelling, ...]:
    return (Spelling(name=field, field=field, kind="text", check=check),)


def _choice(field: str, *choices: str) -> tuple[Spelling, ...]:
    return (Spelling(name=field, field=field, kind="choice", choices=choices),)


KEYS: Mapping[str, tuple[Spelling, ...]] = {
    "maintenance_enabled": _flag("maintenance_enabled"),
    "operations": (Spelling(name="operations", field="operations", kind="list", check=parse_operations),),
    "rewrite_enabled": _flag("rewrite_enabled"),
    "delete_compaction_enabled": _flag("delete_compaction_enabled"),
    "manifest_rewrite_enabled": _flag("manifest_rewrite_enabled"),
    "snapshot_expiry_enabled": _flag("snapshot_expiry_enabled"),
    "orphan_sweep_enabled": _flag("orphan_sweep_enabled"),
    "rewrite_strategy": _choice("rewrite_strategy", "binpack", "sort", "zorder", "hilbert", "auto"),
    "sort_order": _text("sort_order"),
    "zorder_columns": (Spelling(name="zorder_columns", field="zorder_columns", kind="list"),),
    "sort_max_input_bytes": tuple(reversed(_size("sort_max_input_bytes", "sort_max_input_mb", lowest=0))),
    "rewrite_target_bytes": _size("rewrite_target_bytes", "target_file_size_mb"),
    "small_file_threshold_bytes": _size("small_file_threshold_bytes", "small_file_threshold_mb", lowest=0),
    "too_large_bytes": _size("too_large_bytes", "too_large_mb", lowest=0),
    "rewrite_min_input_files": _count("rewrite_min_input_files", "min_input_files", lowest=2),
    "min_input_scope": _choice("min_input_scope", "table", "partition"),
    "splice_min_row_group_bytes": _size("splice_min_row_group_bytes", "splice_min_row_group_mb", lowest=0),
    "compression_level": _count("compression_level", highest=22),
    "where": _text("where"),
    "apply_deletes": _flag("apply_deletes"),
    "delete_compaction_min_deletes": _count("delete_compaction_min_deletes"),
    "delete_ratio_threshold": _rate("delete_ratio_threshold", highest=1),
    "delete_target_bytes": tuple(reversed(_size("delete_target_bytes", "delete_target_file_size_mb"))),
    "delete_min_input_files": _count("delete_min_input_files", lowest=2),
    "delete_max_group_bytes": tuple(reversed(_size("delete_max_group_bytes", "delete_max_file_group_size_mb"))),
    "delete_max_output_files": _count("delete_max_output_files"),
    "manifest_rewrite_min_manifests": (
        *_count("manifest_rewrite_min_manifests"),
        Spelling(name="min_manifests_to_rewrite", field="manifest_rewrite_min_manifests", kind="int", lowest=2),
    ),
    "manifest_target_bytes": _size("manifest_target_bytes", "manifest_target_mb"),
    "manifest_rewrite_interval_ms": _hours("manifest_rewrite_interval_ms", "manifest_rewrite_interval_hours", lowest=0),
    "snapshot_retention_ms": _hours("snapshot_retention_ms", "snapshot_retention_hours"),
    "snapshot_min_retained": _count("snapshot_min_retained", "max_snapshots_to_keep"),
    "orphan_grace_ms": _hours("orphan_grace_ms", "orphan_grace_hours", "orphan_older_than_hours"),
    "orphan_quarantine_ms": _hours("orphan_quarantine_ms", "orphan_quarantine_hours", lowest=0),
    "max_commit_retries": _count("max_commit_retries", highest=20),
    "rebase": _flag("rebase"),
    "partial_progress_commits": _count("partial_progress_commits"),
    "sealed_after_ms": (
        Spelling(name="sealed_after", field="sealed_after_ms", kind="duration", highest=LONGEST_HOURS * HOUR_MS),
    ),
    "max_parallel_tasks": _count("max_parallel_tasks", highest=10_000),
    "bandwidth_mb_per_s": _rate("bandwidth_mb_per_s"),
    "bandwidth_share": (
        Spelling(name="bandwidth_share", field="bandwidth_share", kind="float", lowest=0.001, highest=1),
    ),
    "max_read_mb_per_s": _rate("max_read_mb_per_s"),
    "max_write_mb_per_s": _rate("max_write_mb_per_s"),
    "max_iops": _rate("max_iops"),
    "pass_interval_ms": (
        Spelling(name="pass_interval", field="pass_interval_ms", kind="duration", highest=LONGEST_HOURS * HOUR_MS),
    ),
    "quiet_windows": _text("quiet_windows", check=parse_quiet_windows),
    "latency_threshold_ms": _rate("latency_threshold_ms"),
    "latency_query": _text("latency_query"),
    "op_log_retention_days": _count("op_log_retention_days", highest=36_500),
    "table_properties_override": _flag("table_properties_override"),
}
"""Each field of a policy with its spellings; the first is the one it is shown under."""

SHARED: frozenset[str] = frozenset(
    (
        *(
            "maintenance_enabled",
            "operations",
            "max_parallel_tasks",
            "bandwidth_mb_per_s",
            "bandwidth_share",
            "max_read_mb_per_s",
        ),
        *(
            "max_write_mb_per_s",
            "max_iops",
            "pass_interval_ms",
            "quiet_windows",
            "latency_threshold_ms",
            "latency_query",
            "op_log_retention_days",
        ),
        "table_properties_override",
    )
)
"""Keys of scheduling and pacing, which tables of every format have; the others belong to Iceberg."""

SPELLINGS: Mapping[str, Spelling] = {spelling.name: spelling for spellings in KEYS.values() for spelling in spellings}

PRESET_VALUES: Mapping[Preset, Mapping[str, Value]] = {
    "modak": {},
    "seaweedfs": {
        "maintenance_enabled": False,
        "orphan_sweep_enabled": True,
        "rewrite_target_bytes": 256 * MB,
        "rewrite_min_input_files": 5,
        "min_input_scope": "partition",
        "manifest_rewrite_min_manifests": 5,
        "snapshot_retention_ms": 168 * HOUR_MS,
        "rebase": False,
    },
    "artemis": {
        "small_file_threshold_bytes": 32 * MB,
        "too_large_bytes": GB,
        "rewrite_min_input_files": 2,
        "min_input_scope": "partition",
        "manifest_rewrite_min_manifests": 2,
        "manifest_rewrite_interval_ms": 7 * DAY_MS,
        "max_commit_retries": 16,
        "bandwidth_share": 0.3,
        "pass_interval_ms": 60_000,
        "quiet_windows": "09:00-17:00 UTC",
        "latency_threshold_ms": 1000.0,
    },
}
"""Where a preset differs from `modak`, whose values are the defaults of `Policy`."""


_BUILT_IN = Policy()


def preset_value(preset: Preset, field: str) -> Value:
    """What a preset says of a key."""
    own = PRESET_VALUES[preset].get(field)
    built_in: Value = getattr(_BUILT_IN, field)
    return own if own is not None else built_in


def find_key(name: str) -> Spelling:
    """The key of that name, or a refusal with the nearest right one."""
    known = {**SPELLINGS, **added_spellings()}
    found = known.get(name)
    if found is None:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else "`thermocline policy TABLE` lists every key."
        raise PolicyKeyUnknown(
            f"unknown policy key {name!r}" + (f"; the nearest is {near[0]!r}" if near else ""), hint=hint
        )
    return found


def parse_value(name: str, text: str) -> tuple[Spelling, Value]:
    """The key, and its value in the field's own unit."""
    spelling = find_key(name)
    return spelling, parse_as(spelling, text)
