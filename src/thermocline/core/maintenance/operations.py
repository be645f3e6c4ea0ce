"""The operations of a pass: their names, what switches each off, and the order they run in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from thermocline.core.maintenance.outcome import Operation
from thermocline.core.maintenance.policy import Policy
from thermocline.maintenance_errors import OperationUnknown

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
DISABLED = "disabled by policy"
ALL_DISABLED = "all maintenance operations are disabled for this table"

_DELETES_FIRST: tuple[Operation, ...] = ("convert_deletes", "compact", "rewrite_position_delete_files")
_ORDERS: dict[str, tuple[Operation, ...]] = {
    "modak": (*_DELETES_FIRST, "rewrite_manifests", "expire_snapshots", "remove_orphans", "prune_metadata"),
    "seaweedfs": (*_DELETES_FIRST, "expire_snapshots", "remove_orphans", "rewrite_manifests", "prune_metadata"),
    "artemis": (*_DELETES_FIRST, "rewrite_manifests", "expire_snapshots", "remove_orphans", "prune_metadata"),
}
ONLY_WHEN_NAMED: frozenset[Operation] = frozenset({"convert_deletes"})
"""Compaction applies the deletes itself; turning them into position deletes first would be work done twice."""
SILENT_WHEN_IDLE: frozenset[Operation] = frozenset({"rewrite_position_delete_files", "prune_metadata"})
"""Part of every pass, and worth a sentence only when they were named or did something."""


def parse_operations(text: str) -> tuple[Operation, ...]:
    """`compact, expire_snapshots`; blank or `all` means every operation and gives none."""
    names = [name for name in (part.strip() for part in text.split(",")) if name]
    if names in ([], ["all"]):
        return ()
    for name in names:
        if name not in OPERATIONS:
            raise OperationUnknown(f"unknown operation {name!r}", hint=f"There are {', '.join(OPERATIONS)}, and all.")
    return tuple(name for name in OPERATIONS if name in names)


def plan_operations(policy: Policy, asked: Sequence[str] = ()) -> tuple[Operation, ...]:
    """What a pass goes through, in the preset's order whatever order was typed; disabled ones among them, for they report it."""
    named = asked or policy.operations
    order = _ORDERS[policy.preset]
    return tuple(name for name in order if (name in named if named else name not in ONLY_WHEN_NAMED))


def is_enabled(policy: Policy, operation: Operation) -> bool:
    """Whether the operation's own key lets it run; a forced pass obeys it too."""
    match operation:
        case "compact":
            return policy.rewrite_enabled or policy.delete_compaction_enabled
        case "convert_deletes" | "rewrite_position_delete_files":
            return policy.delete_compaction_enabled
        case "rewrite_manifests":
            return policy.manifest_rewrite_enabled
        case "expire_snapshots" | "prune_metadata":
            return policy.snapshot_expiry_enabled
        case "remove_orphans":
            return policy.orphan_sweep_enabled


def is_named(policy: Policy, asked: Sequence[str], operation: Operation) -> bool:
    return operation in asked or operation in policy.operations
