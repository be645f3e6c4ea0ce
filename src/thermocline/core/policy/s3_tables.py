"""Maintenance settings in the style of S3 Tables, as a layer of our policy.

Bucket level: `icebergUnreferencedFileRemoval`, whose two day counts add up to the orphan age. Table level:
`icebergCompaction` and `icebergSnapshotManagement`. A type that is disabled switches its operations off; no table
property switches them on. The document is the map of types, or the whole response of
`get-table-maintenance-configuration` or `get-table-bucket-maintenance-configuration`, as the AWS CLI and boto3 give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thermocline.core.policy.key_types import Value
from thermocline.core.policy.keys import parse_value
from thermocline.core.policy.policy_layers import PolicyChanges
from thermocline.errors.maintenance import BadPolicyValue

_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "icebergCompaction": ("rewrite_enabled", "delete_compaction_enabled"),
    "icebergSnapshotManagement": ("snapshot_expiry_enabled",),
    "icebergUnreferencedFileRemoval": ("orphan_sweep_enabled",),
}
_NUMBERS: Mapping[str, Mapping[str, str]] = {
    "icebergCompaction": {"targetFileSizeMB": "target_file_size_mb"},
    "icebergSnapshotManagement": {
        "minSnapshotsToKeep": "snapshot_min_retained",
        "maxSnapshotAgeHours": "snapshot_retention_hours",
    },
    "icebergUnreferencedFileRemoval": {},
}
_BESIDE_CONFIGURATION = frozenset({"tableARN", "tableBucketARN", "ResponseMetadata"})
_STRATEGIES = {"auto": "auto", "binpack": "binpack", "sort": "sort", "z-order": "zorder"}


def parse_s3_tables(document: object) -> PolicyChanges:
    """`{"icebergCompaction": {"status": "enabled", "settings": {"icebergCompaction": {"targetFileSizeMB": 256}}}, …}`
    as policy values."""
    if not isinstance(document, dict):
        raise BadPolicyValue("Settings in the S3 Tables style are a JSON object of maintenance types.")
    values: dict[str, Value] = {}
    for kind, configured in _types_of(document).items():
        if kind not in _SWITCHES:
            raise BadPolicyValue(f"unknown maintenance type {kind!r}; there are {', '.join(_SWITCHES)}.")
        if not isinstance(configured, dict) or configured.get("status") not in ("enabled", "disabled"):
            raise BadPolicyValue(f"{kind} needs a status, enabled or disabled.")
        values |= dict.fromkeys(_SWITCHES[kind], configured["status"] == "enabled")
        settings = configured.get("settings") or {}
        values |= _parse_settings(kind, settings.get(kind) or {})
    return PolicyChanges(values=values)


def _types_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The map of maintenance types: the document itself, or what a response has under `configuration`."""
    if "configuration" not in document:
        return document
    if left := [name for name in document if name != "configuration" and name not in _BESIDE_CONFIGURATION]:
        raise BadPolicyValue(f"unknown member {left[0]!r} beside configuration.")
    if not isinstance(document["configuration"], dict):
        raise BadPolicyValue("configuration is a JSON object of maintenance types.")
    return document["configuration"]


def _parse_settings(kind: str, settings: Mapping[str, Any]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    left = dict(settings)
    for name, key in _NUMBERS[kind].items():
        if name in left:
            spelling, value = parse_value(key, str(left.pop(name)))
            values[spelling.field] = value
    if kind == "icebergCompaction" and "strategy" in left:
        strategy = left.pop("strategy")
        if strategy not in _STRATEGIES:
            raise BadPolicyValue(f"unknown strategy {strategy!r}; there are {', '.join(_STRATEGIES)}.")
        values["rewrite_strategy"] = _STRATEGIES[strategy]
    if kind == "icebergUnreferencedFileRemoval" and left:
        values["orphan_grace_ms"] = _orphan_age(left.pop("unreferencedDays", 3), left.pop("nonCurrentDays", 10))
    if left:
        raise BadPolicyValue(f"unknown setting {next(iter(left))!r} of {kind}.")
    return values


def _orphan_age(unreferenced_days: object, non_current_days: object) -> Value:
    for days in (unreferenced_days, non_current_days):
        if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= 18_000:
            raise BadPolicyValue(f"{days!r} is not a number of days from 1 to 18000.")
    assert isinstance(unreferenced_days, int)
    assert isinstance(non_current_days, int)
    return parse_value("orphan_grace_hours", str(24 * (unreferenced_days + non_current_days)))[1]
