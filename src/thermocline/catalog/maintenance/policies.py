"""Stored maintenance policies: of a registered table, of a lake table, of a namespace, of the whole catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from thermocline.catalog.safety import Owner
from thermocline.core.names import LAKE_CATALOG
from thermocline.core.policy.policy_layers import NOTHING, PolicyChanges, policy_from_json, policy_to_json
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/policies.sql")
WHOLE_CATALOG = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceScope:
    """All tables of a namespace; of every namespace when it is empty."""

    namespace: str = WHOLE_CATALOG


PolicyScope = Owner | NamespaceScope


def read_policy(conn: Connection, scope: PolicyScope) -> PolicyChanges:
    """The scope's own layer."""
    row = conn.execute(_QUERIES[f"of_{_kind(scope)}"], _values(scope)).fetchone()
    return policy_from_json(row[0]) if row else NOTHING


def apply_policy(
    conn: Connection, scope: PolicyScope, change: Callable[[PolicyChanges], PolicyChanges]
) -> tuple[PolicyChanges, PolicyChanges]:
    """Change the scope's layer, all or nothing; what it was and what it is."""
    with conn.transaction():
        if isinstance(scope, NamespaceScope):
            conn.execute(_QUERIES["open_namespace"], _values(scope))
        row = conn.execute(_QUERIES[f"lock_{_kind(scope)}"], _values(scope)).fetchone()
        before = policy_from_json(row[0]) if row else NOTHING
        after = change(before)
        conn.execute(_QUERIES[f"store_{_kind(scope)}"], {**_values(scope), "policy": Jsonb(policy_to_json(after))})
    return before, after


def _kind(scope: PolicyScope) -> str:
    if isinstance(scope, NamespaceScope):
        return "namespace"
    return "table" if scope.table_id is not None else "lake"


def _values(scope: PolicyScope) -> dict[str, object]:
    if isinstance(scope, NamespaceScope):
        return {"catalog": LAKE_CATALOG, "namespace": scope.namespace}
    return scope.values()
