"""The table a pass is about, found by the name a person types, and the policy in force for it."""

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
        return _located(conn, target, Owner(table_id=registered.id), str(name), ICEBERG.name)
    entry = lake_tables.read_lake_table_entry(conn, name) if _has_catalog(conn) else None
    if entry is None:
        raise LakeTableNotMaintained(f"{name} is neither a registered table nor an Iceberg table under maintenance.")
    return _located(
        conn, LakeTarget(name=entry.name, lake_id=entry.id), Owner(lake_id=entry.id), str(name), entry.format
    )


def find_owner(conn: Connection, owner: Owner) -> Target:
    """The table behind a row of the schedule or of the requests."""
    for one in lake_tables.read_maintained(conn):
        if one.owner == owner:
            return target_of(conn, one)
    raise LakeTableNotMaintained("The table is no longer under maintenance.")


def target_of(conn: Connection, one: Maintained) -> Target:
    registered = tables.read_table(conn, one.heap) if one.heap is not None else None
    target = LakeTarget(name=one.lake, registered=registered, lake_id=one.owner.lake_id)
    return _located(conn, target, one.owner, one.label, one.format)


def read_resolved_policy(conn: Connection, seen: Target, settings: Settings) -> ResolvedPolicy:
    """Every layer read and resolved, once per pass."""
    return resolve_policy(
        PolicyLayers(
            environment=environment_layer(settings),
            environment_names=environment_names(settings),
            catalog=read_policy(conn, NamespaceScope()),
            namespace=read_policy(conn, NamespaceScope(namespace=seen.target.name.schema)),
            properties=seen.properties,
            table=read_policy(conn, seen.owner),
        ),
        seen.format,
    )


def environment_layer(settings: Settings) -> PolicyChanges:
    """What the settings say of policy keys; `maintenance_policy` loses to a key's own variable."""
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


def _located(conn: Connection, target: LakeTarget, owner: Owner, label: str, format: str) -> Target:
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
