"""Find the table of a pass by its name, and resolve its policy."""

from __future__ import annotations

from thermocline.catalog import tables
from thermocline.catalog.maintenance import lake_tables
from thermocline.catalog.maintenance.lake_tables import Maintained
from thermocline.catalog.maintenance.policies import NamespaceScope, read_policy
from thermocline.catalog.safety import Owner
from thermocline.core.names import TableName
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.policy_layers import (
    PolicyChanges,
    PolicyLayers,
    ResolvedPolicy,
    parse_changes,
    resolve_policy,
)
from thermocline.errors.maintenance import LakeTableNotMaintained
from thermocline.maintain.context import LakeTarget
from thermocline.maintain.format.formats import Target
from thermocline.maintain.format.plugins import load_formats, plugin_named
from thermocline.runtime import PREFIX
from thermocline.runtime.pg import Connection
from thermocline.runtime.settings import Settings

_ENVIRONMENT_KEYS = (
    "maintenance_enabled",
    "rewrite_target_bytes",
    "rewrite_min_input_files",
    "snapshot_retention_hours",
    "snapshot_min_retained",
)


def find_target(conn: Connection, name: TableName) -> Target:
    """A registered table by its own name; a lake table by namespace and name."""
    registered = tables.read_table(conn, name) if _has_catalog(conn) else None
    if registered is not None:
        lake = TableName(registered.lake_namespace, registered.lake_name)
        target = LakeTarget(name=lake, registered=registered)
        return _locate_target(conn, target, Owner(table_id=registered.id), str(name), ICEBERG.name)
    entry = lake_tables.read_lake_table_entry(conn, name) if _has_catalog(conn) else None
    if entry is None:
        raise LakeTableNotMaintained(f"{name} is neither a registered table nor an Iceberg table under maintenance.")
    return _locate_target(
        conn, LakeTarget(name=entry.name, lake_id=entry.id), Owner(lake_id=entry.id), str(name), entry.format
    )


def find_owner(conn: Connection, owner: Owner) -> Target:
    """The table behind a row of the schedule or of the requests."""
    for maintained in lake_tables.read_maintained(conn):
        if maintained.owner == owner:
            return target_of(conn, maintained)
    raise LakeTableNotMaintained("The table is no longer under maintenance.")


def target_of(conn: Connection, maintained: Maintained) -> Target:
    registered = tables.read_table(conn, maintained.heap) if maintained.heap is not None else None
    target = LakeTarget(name=maintained.lake, registered=registered, lake_id=maintained.owner.lake_id)
    return _locate_target(conn, target, maintained.owner, maintained.label, maintained.format)


def read_resolved_policy(conn: Connection, target: Target, settings: Settings) -> ResolvedPolicy:
    """Every layer read and resolved, once per pass."""
    return resolve_policy(
        PolicyLayers(
            environment=environment_layer(settings),
            environment_names=environment_names(settings),
            catalog=read_policy(conn, NamespaceScope()),
            namespace=read_policy(conn, NamespaceScope(namespace=target.target.name.schema)),
            properties=target.properties,
            table=read_policy(conn, target.owner),
        ),
        target.format,
    )


def environment_layer(settings: Settings) -> PolicyChanges:
    """The policy keys in the settings; a key's own variable wins over `maintenance_policy`."""
    load_formats()
    own = {key: getattr(settings, key) for key in _ENVIRONMENT_KEYS}
    pairs = [f"{key}={str(value).lower()}" for key, value in own.items() if value is not None]
    others = parse_changes(part for part in settings.maintenance_policy.split(";") if part.strip())
    named = parse_changes(pairs)
    return PolicyChanges(values={**others.values, **named.values}, preset=settings.maintenance_preset)


def environment_names(settings: Settings) -> dict[str, str]:
    names = dict.fromkeys(environment_layer(settings).values, f"environment {PREFIX}MAINTENANCE_POLICY")
    for key in _ENVIRONMENT_KEYS:
        if (value := getattr(settings, key)) is not None:
            names |= dict.fromkeys(
                parse_changes([f"{key}={str(value).lower()}"]).values, f"environment {PREFIX}{key.upper()}"
            )
    return names


def _has_catalog(conn: Connection) -> bool:
    return conn.execute("select to_regclass('thermocline.lake_tables') is not null").fetchone() == (True,)


def _locate_target(conn: Connection, target: LakeTarget, owner: Owner, label: str, format: str) -> Target:
    plugin = plugin_named(format)
    found = plugin.locate(conn, target.name)
    return Target(
        target=target,
        owner=owner,
        label=label,
        metadata_location=found.location,
        snapshot=found.snapshot,
        properties=found.properties,
        format=plugin.format,
    )
