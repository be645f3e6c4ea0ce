"""The table a pass is about, found by the name a person types, and the policy in force for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from thermocline.catalog import lake_tables, tables
from thermocline.catalog.lake_tables import Maintained
from thermocline.catalog.policies import NamespaceScope, read_policy
from thermocline.catalog.safety import Owner
from thermocline.cold.metadata import read_lake_table
from thermocline.core.maintenance.resolve import PolicyChanges, PolicyLayers, ResolvedPolicy, parse_changes, resolve_policy
from thermocline.core.names import TableName
from thermocline.errors import LakeTableMissing
from thermocline.maintenance_errors import LakeTableUnknown
from thermocline.ops.maintain.context import LakeTarget
from thermocline.pg import Connection
from thermocline.settings import PREFIX, Settings

_ENVIRONMENT_KEYS = (
    "maintenance_enabled",
    "rewrite_target_bytes",
    "rewrite_min_input_files",
    "snapshot_retention_hours",
    "snapshot_min_retained",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table under maintenance with its owner in the catalog; `label` is the name it goes by among people."""

    target: LakeTarget
    owner: Owner
    label: str
    metadata_location: str
    snapshot: int | None = field(default=None)


def find_target(conn: Connection, name: TableName) -> Target:
    """A registered table by its own name; a lake table by namespace and name."""
    registered = tables.read_table(conn, name) if _has_catalog(conn) else None
    if registered is not None:
        lake = TableName(registered.lake_namespace, registered.lake_name)
        target = LakeTarget(name=lake, registered=registered)
        return _located(conn, target, Owner(table_id=registered.id), str(name))
    entry = lake_tables.read_lake_table_entry(conn, name) if _has_catalog(conn) else None
    if entry is None:
        raise LakeTableUnknown(f"{name} is neither a registered table nor an Iceberg table under maintenance.")
    return _located(conn, LakeTarget(name=entry.name, lake_id=entry.id), Owner(lake_id=entry.id), str(name))


def find_owner(conn: Connection, owner: Owner) -> Target:
    """The table behind a row of the schedule or of the requests."""
    for one in lake_tables.read_maintained(conn):
        if one.owner == owner:
            return target_of(conn, one)
    raise LakeTableUnknown("The table is no longer under maintenance.")


def target_of(conn: Connection, one: Maintained) -> Target:
    registered = tables.read_table(conn, one.heap) if one.heap is not None else None
    target = LakeTarget(name=one.lake, registered=registered, lake_id=one.owner.lake_id)
    return _located(conn, target, one.owner, one.label)


def read_resolved_policy(conn: Connection, seen: Target, settings: Settings) -> ResolvedPolicy:
    """Every layer read and resolved, once per pass."""
    return resolve_policy(
        PolicyLayers(
            environment=environment_layer(settings),
            environment_names=environment_names(settings),
            catalog=read_policy(conn, NamespaceScope()),
            namespace=read_policy(conn, NamespaceScope(namespace=seen.target.name.schema)),
            properties=read_lake_table(seen.metadata_location).metadata.properties,
            table=read_policy(conn, seen.owner),
        )
    )


def environment_layer(settings: Settings) -> PolicyChanges:
    """What the settings say of policy keys; `maintenance_policy` loses to a key's own variable."""
    own = {key: getattr(settings, key) for key in _ENVIRONMENT_KEYS}
    pairs = [f"{key}={str(value).lower()}" for key, value in own.items() if value is not None]
    others = parse_changes(part for part in settings.maintenance_policy.split(";") if part.strip())
    named = parse_changes(pairs)
    return PolicyChanges(values={**others.values, **named.values}, preset=settings.maintenance_preset)


def environment_names(settings: Settings) -> dict[str, str]:
    names = dict.fromkeys(environment_layer(settings).values, f"environment {PREFIX}MAINTENANCE_POLICY")
    for key in _ENVIRONMENT_KEYS:
        if (value := getattr(settings, key)) is not None:
            names |= dict.fromkeys(parse_changes([f"{key}={str(value).lower()}"]).values, f"environment {PREFIX}{key.upper()}")
    return names


def _has_catalog(conn: Connection) -> bool:
    return conn.execute("select to_regclass('thermocline.lake_tables') is not null").fetchone() == (True,)


def _located(conn: Connection, target: LakeTarget, owner: Owner, label: str) -> Target:
    location = tables.read_lake_metadata_location(conn, target.name.schema, target.name.table)
    if location is None:
        raise LakeTableMissing(f"The Iceberg table {target.name} of {label} is not in the catalog.")
    snapshot = read_lake_table(location).metadata.current_snapshot_id
    return Target(target=target, owner=owner, label=label, metadata_location=location, snapshot=snapshot)
