"""View and change policies of a table, of a namespace, or of the whole catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from thermocline.catalog.maintenance.forced_passes import hasten_pass
from thermocline.catalog.maintenance.policies import WHOLE_CATALOG, NamespaceScope, apply_policy, read_policy
from thermocline.catalog.tables import insert_event
from thermocline.core.names import parse_table_name
from thermocline.core.policy.iceberg_format import ICEBERG
from thermocline.core.policy.operations import check_operations
from thermocline.core.policy.policy_layers import (
    NOTHING,
    PolicyChanges,
    PolicyLayers,
    PolicyLine,
    ResolvedPolicy,
    change_policy,
    keys_of,
    policy_to_json,
    render_policy,
    resolve_policy,
)
from thermocline.errors import BadTableName
from thermocline.errors.maintenance import PolicyKeyUnknown, PolicyScopeUnknown
from thermocline.maintain.format.formats import Target
from thermocline.maintain.targets import environment_layer, environment_names, find_target, read_resolved_policy
from thermocline.runtime.pg import Connection, connect
from thermocline.runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """One command: several changes apply together or not at all."""

    changes: PolicyChanges = NOTHING
    unset: Sequence[str] = ()
    reset: bool = False

    @property
    def changes_something(self) -> bool:
        return bool(self.changes.values or self.changes.preset or self.unset or self.reset)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """The policy in force, key by key, and the scope's own layer as it is stored."""

    scope: str
    preset: str
    keys: tuple[PolicyLine, ...]
    own: dict[str, Any]
    warnings: tuple[str, ...]
    text: tuple[str, ...]


def policy_of(dsn: str, scope: str, request: PolicyRequest, settings: Settings) -> PolicyView:
    """Apply the changes to the policy of `schema.table`, `namespace.*` or `*`; returns the policy in force."""
    with connect(dsn, autocommit=True, application_name="thermocline policy") as conn:
        if scope == "*" or scope.endswith(".*"):
            namespace = _parse_namespace(scope)
            _change(
                conn,
                namespace,
                None,
                scope,
                request,
                lambda: check_operations(_resolve_namespace(conn, namespace, settings).policy, ICEBERG),
            )
            return _view(scope, _resolve_namespace(conn, namespace, settings), read_policy(conn, namespace))
        seen = find_target(conn, parse_table_name(scope))
        _check_keys(seen, request)
        _change(conn, seen, seen.owner.table_id, seen.label, request, lambda: _check_table(conn, seen, settings))
        resolved = read_resolved_policy(conn, seen, settings)
        if request.changes_something and resolved.policy.pass_interval_ms >= 0:
            hasten_pass(
                conn, seen.owner
            )  # otherwise a table whose policy becomes continuous would wait for an hour first
        return _view(seen.label, resolved, read_policy(conn, seen.owner))


def _parse_namespace(scope: str) -> NamespaceScope:
    if scope == "*":
        return NamespaceScope(namespace=WHOLE_CATALOG)
    try:
        return NamespaceScope(namespace=parse_table_name(f"{scope[:-2]}.x").schema)
    except BadTableName:
        raise PolicyScopeUnknown(f"{scope!r} names no table and no namespace.") from None


def _check_keys(seen: Target, request: PolicyRequest) -> None:
    """A table's own policy has only keys of its format."""
    known = keys_of(seen.format)
    if odd := next((field for field in request.changes.values if field not in known), None):
        raise PolicyKeyUnknown(f"{odd} is no key of a table of format {seen.format.name}")


def _check_table(conn: Connection, seen: Target, settings: Settings) -> None:
    check_operations(read_resolved_policy(conn, seen, settings).policy, seen.format)


def _change(
    conn: Connection,
    scope: Target | NamespaceScope,
    table_id: int | None,
    label: str,
    request: PolicyRequest,
    check: Callable[[], None],
) -> None:
    """Store the change, unless `check` refuses a policy that a pass could not run."""
    if not request.changes_something:
        return
    with conn.transaction():
        owner = scope.owner if isinstance(scope, Target) else scope
        before, after = apply_policy(
            conn, owner, lambda stored: change_policy(stored, request.changes, request.unset, reset=request.reset)
        )
        check()
        row = conn.execute("select session_user").fetchone()
        who = row[0] if row else "somebody"
        told = (
            f"{label}: {who} changed the maintenance policy from {policy_to_json(before)} to {policy_to_json(after)}."
        )
        insert_event(conn, table_id, "policy", told)


def _resolve_namespace(conn: Connection, scope: NamespaceScope, settings: Settings) -> ResolvedPolicy:
    """The policy of a table without properties and without a policy of its own."""
    return resolve_policy(
        PolicyLayers(
            environment=environment_layer(settings),
            environment_names=environment_names(settings),
            catalog=read_policy(conn, NamespaceScope()),
            namespace=read_policy(conn, scope) if scope.namespace != WHOLE_CATALOG else NOTHING,
            properties={},
            table=NOTHING,
        )
    )


def _view(scope: str, resolved: ResolvedPolicy, own: PolicyChanges) -> PolicyView:
    return PolicyView(
        scope=scope,
        preset=resolved.policy.preset,
        keys=resolved.lines,
        own=policy_to_json(own),
        warnings=resolved.warnings,
        text=tuple(render_policy(resolved)),
    )
