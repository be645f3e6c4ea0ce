"""Every key of a policy of an Iceberg table, by its spellings, and its value in each preset.

A key is declared as a field of `Policy`. Values are checked here, when they are given, so that a policy read back from
the catalog is one that a pass can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from typing import Literal

from thermocline.core.messages.nearest import find_nearest, render_nearest
from thermocline.core.policy.formats import added_spellings
from thermocline.core.policy.key_fields import is_shared, spellings_of
from thermocline.core.policy.key_types import DAY_MS, HOUR_MS, MB, Spelling, Value, parse_as
from thermocline.core.policy.operations import parse_operations
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import PolicyKeyUnknown

Preset = Literal["modak", "seaweedfs", "artemis"]
PRESETS: tuple[Preset, ...] = ("modak", "seaweedfs", "artemis")
GB = 1024 * MB


def _spellings(declared: Field[object]) -> tuple[Spelling, ...]:
    check = _CHECKS.get(declared.name)
    return tuple(replace(s, check=check) if check else s for s in spellings_of(declared))


_CHECKS: Mapping[str, Callable[[str], object]] = {"operations": parse_operations}
"""Checks that need the policy itself, so its module cannot name them."""

KEYS: Mapping[str, tuple[Spelling, ...]] = {
    declared.name: spellings for declared in fields(Policy) if (spellings := _spellings(declared))
}
"""Each field of a policy with its spellings; the first is the one it is shown under."""

SHARED: frozenset[str] = frozenset(declared.name for declared in fields(Policy) if is_shared(declared))
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
        hint = render_nearest(name, known, otherwise="`thermocline policy TABLE` lists every key.")
        nearest = find_nearest(name, known)
        sentence = f"unknown policy key {name!r}" + (f"; the nearest is {nearest!r}" if nearest else "")
        raise PolicyKeyUnknown(sentence, hint=hint)
    return found


def parse_value(name: str, text: str) -> tuple[Spelling, Value]:
    """The key, and its value in the field's own unit."""
    spelling = find_key(name)
    return spelling, parse_as(spelling, text)
