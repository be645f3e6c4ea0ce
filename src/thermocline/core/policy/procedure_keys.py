"""Which keys of a policy Iceberg's own procedures cannot honour, and at which value leaving one out makes no
difference.

Pure. Keys that are not named here are handed to the procedures as options, or are honoured before one starts. Of those
that only tune our own kernels a preset's value is not counted as set: they count when they were set to another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thermocline.core.maintenance.outcome import Operation
from thermocline.core.policy.key_types import Value, render_value
from thermocline.core.policy.keys import KEYS, preset_value
from thermocline.core.policy.policy import Policy

_PACED: Mapping[str, Value] = {
    "bandwidth_share": 1.0,
    "max_read_mb_per_s": 0,
    "max_write_mb_per_s": 0,
    "max_iops": 0,
    "quiet_windows": "",
    "latency_threshold_ms": 0,
}
"""A procedure is one call: nothing slows it down or stops it half way."""
_WITHOUT_EFFECT: Mapping[Operation, Mapping[str, Value]] = {
    "compact": {
        **_PACED,
        "where": "",
        "sort_order": "",
        "sort_max_input_bytes": 0,
        "apply_deletes": True,
        "rewrite_enabled": True,
        "rebase": True,
        "sealed_after_ms": -1,
    },
    "rewrite_position_delete_files": {**_PACED, "where": "", "rebase": True},
    "rewrite_manifests": {"rebase": True},
}
_TUNING: Mapping[Operation, tuple[str, ...]] = {
    "compact": (
        "min_input_scope",
        "splice_min_row_group_bytes",
        "compression_level",
        "partial_progress_commits",
        "max_commit_retries",
    ),
    "rewrite_position_delete_files": ("delete_max_output_files", "compression_level", "max_commit_retries"),
    "rewrite_manifests": ("max_commit_retries",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyNotHonoured:
    """A key as it is set, and the value at which the procedure does what the policy says; both as they would be
    given."""

    name: str
    value: str
    harmless: str


def find_not_honoured(policy: Policy, operation: Operation) -> tuple[KeyNotHonoured, ...]:
    """The keys of the policy in force that one of Iceberg's procedures would silently leave out."""
    harmless = {
        **{field: preset_value(policy.preset, field) for field in _TUNING[operation]},
        **_WITHOUT_EFFECT[operation],
    }
    found = [
        _rendered(field, getattr(policy, field), value)
        for field, value in harmless.items()
        if getattr(policy, field) != value
    ]
    if operation == "compact" and policy.rewrite_strategy == "hilbert":
        found.append(KeyNotHonoured(name="rewrite_strategy", value="hilbert", harmless="zorder"))
    return tuple(found)


def _rendered(field: str, value: Value, harmless: Value) -> KeyNotHonoured:
    spelling = KEYS[field][0]
    return KeyNotHonoured(
        name=spelling.name, value=render_value(spelling, value), harmless=render_value(spelling, harmless)
    )
