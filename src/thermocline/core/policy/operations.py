"""The operations of a pass: their names, what switches each off, and the order they run in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thermocline.core.maintenance.outcome import Operation
from thermocline.core.messages.nearest import render_nearest
from thermocline.core.policy.formats import Format, OperationSpec, added_formats, policy_value
from thermocline.core.policy.policy import Policy
from thermocline.errors.maintenance import BadWhere, OperationUnknown

DISABLED = "disabled by policy"
ALL_DISABLED = "all maintenance operations are disabled for this table"

_ANY = (
    "snapshot_expiry_enabled",
    "rewrite_enabled",
    "delete_compaction_enabled",
    "manifest_rewrite_enabled",
    "orphan_sweep_enabled",
)
"""Every commit leaves a metadata file, whether or not snapshots expire: they are pruned unless all maintenance is
off."""

ICEBERG_OPERATIONS: tuple[OperationSpec, ...] = (
    # Compaction applies the deletes itself; turning them into position deletes first would be work done twice.
    OperationSpec(
        name="convert_deletes", enabled_by=("delete_compaction_enabled",), only_when_named=True, is_paced=True
    ),
    OperationSpec(name="compact", enabled_by=("rewrite_enabled", "delete_compaction_enabled"), is_paced=True),
    OperationSpec(
        name="rewrite_position_delete_files",
        enabled_by=("delete_compaction_enabled",),
        silent_when_idle=True,
        is_paced=True,
    ),
    OperationSpec(name="rewrite_manifests", enabled_by=("manifest_rewrite_enabled",)),
    OperationSpec(name="expire_snapshots", enabled_by=("snapshot_expiry_enabled",), is_of_whole_table=True),
    OperationSpec(name="remove_orphans", enabled_by=("orphan_sweep_enabled",), is_of_whole_table=True),
    OperationSpec(name="prune_metadata", enabled_by=_ANY, silent_when_idle=True),
)
"""In the order of `modak` and `artemis`."""
_DELETES_FIRST = ("convert_deletes", "compact", "rewrite_position_delete_files")
ICEBERG_ORDERS = {
    "seaweedfs": (*_DELETES_FIRST, "expire_snapshots", "remove_orphans", "rewrite_manifests", "prune_metadata")
}
OPERATIONS: tuple[Operation, ...] = tuple(spec.name for spec in ICEBERG_OPERATIONS)


def parse_operations(text: str) -> tuple[Operation, ...]:
    """`compact, expire_snapshots`; blank or `all` means every operation and gives none."""
    names = [name for name in (part.strip() for part in text.split(",")) if name]
    if names in ([], ["all"]):
        return ()
    known = tuple(
        dict.fromkeys((*OPERATIONS, *(spec.name for format in added_formats() for spec in format.operations)))
    )
    for name in names:
        if name not in known:
            raise OperationUnknown(f"unknown operation {name!r}", hint=render_nearest(name, (*known, "all")))
    return tuple(name for name in known if name in names)


def plan_operations(
    policy: Policy,
    requested: Sequence[str] = (),
    specs: Sequence[OperationSpec] = ICEBERG_OPERATIONS,
    orders: Mapping[str, tuple[str, ...]] = ICEBERG_ORDERS,
) -> tuple[Operation, ...]:
    """What a pass goes through, in the preset's order whatever order was typed; disabled ones among them, for they
    report it."""
    named = requested or policy.operations
    idle = {spec.name for spec in specs if spec.only_when_named}
    order = orders.get(policy.preset) or tuple(spec.name for spec in specs)
    return tuple(name for name in order if (name in named if named else name not in idle))


def is_enabled(policy: Policy, operation: Operation, specs: Sequence[OperationSpec] = ICEBERG_OPERATIONS) -> bool:
    """Whether the operation's own keys let it run; a forced pass obeys them too."""
    return any(bool(policy_value(policy, key)) for spec in specs if spec.name == operation for key in spec.enabled_by)


def check_operations(policy: Policy, format: Format, requested: Sequence[Operation] = ()) -> None:
    """Refuse operations that the format does not have, and a limit to partitions for one that is of the whole table."""
    for name in requested:
        if format.operation(name) is None:
            there = ", ".join(spec.name for spec in format.operations)
            raise OperationUnknown(
                f"a table of format {format.name} has no operation {name!r}", hint=f"There are {there}."
            )
    if not policy.where:
        return
    for name in plan_operations(policy, requested, format.operations, format.orders):
        spec = format.operation(name)
        if spec is not None and spec.is_of_whole_table and is_enabled(policy, name, format.operations):
            raise BadWhere(
                f"where limits a pass to partitions, and {name} is of the whole table.",
                hint="Name operations that can be limited, as by --operations compact or the key `operations`.",
            )
