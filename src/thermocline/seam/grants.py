"""The seam's grants brought to what the heap grants: what is missing granted, what is gone revoked, column grants
included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from thermocline.runtime.pg import Connection, load_queries, rows_by_name, table_identifier
from thermocline.seam.heap.facts import Grant, HeapFacts, read_grants
from thermocline.seam.objects import SeamObjects, apply_grants

_QUERIES = load_queries("thermocline.seam", "queries/grants.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantChanges:
    """What the seam lacks, and what it grants and the heap does not."""

    missing: tuple[Grant, ...]
    surplus: tuple[Grant, ...]


def read_grant_changes(conn: Connection, heap: HeapFacts, objects: SeamObjects) -> GrantChanges:
    wanted = dict.fromkeys(heap.grants)
    oid = conn.execute("select %s::regclass::oid", [str(objects.seam)]).fetchall()[0][0]
    held = dict.fromkeys(read_grants(conn, oid))
    return GrantChanges(
        missing=tuple(grant for grant in wanted if grant not in held),
        surplus=tuple(grant for grant in held if grant not in wanted),
    )


def apply_grant_changes(conn: Connection, heap: HeapFacts, objects: SeamObjects) -> GrantChanges:
    """Revoke first, then grant: a grant that only lost its grant option is surplus with it and missing without."""
    changes = read_grant_changes(conn, heap, objects)
    _apply_revokes(conn, objects, changes.surplus)
    # Revoking a right on the whole view takes the same right on its columns along, so look again.
    apply_grants(conn, objects, read_grant_changes(conn, heap, objects).missing)
    return changes


def _apply_revokes(conn: Connection, objects: SeamObjects, grants: Iterable[Grant]) -> None:
    for grant in grants:
        column = sql.SQL(" ({})").format(sql.Identifier(grant.column)) if grant.column else sql.SQL("")
        role = sql.Identifier(grant.grantee) if grant.grantee else sql.SQL("public")
        seam = table_identifier(objects.seam)
        conn.execute(sql.SQL("revoke {}{} on {} from {} cascade").format(sql.SQL(grant.privilege), column, seam, role))


def note_followed_grants(conn: Connection, table_id: int) -> None:
    """The heap's grants are followed as they are now."""
    conn.execute(_QUERIES["note"], {"table_id": table_id})


def follow_grant_changes(conn: Connection, table_id: int, objects: SeamObjects) -> GrantChanges:
    """Grant and revoke on the seam what was granted and revoked on the heap since it was followed last; what was
    granted or revoked on the seam itself stays."""
    values = {"table_id": table_id}
    if conn.execute(_QUERIES["has_changed"], values).fetchone() != (True,):
        note_followed_grants(conn, table_id)
        return GrantChanges(missing=(), surplus=())
    rows = rows_by_name(conn).execute(_QUERIES["changes"], values).fetchall()
    found = [
        (
            row.is_added,
            Grant(grantee=row.grantee, privilege=row.privilege, grantable=row.grantable, column=row.column),
        )
        for row in rows
    ]
    changes = GrantChanges(
        missing=tuple(grant for is_added, grant in found if is_added),
        surplus=tuple(grant for is_added, grant in found if not is_added),
    )
    _apply_revokes(conn, objects, changes.surplus)
    apply_grants(conn, objects, changes.missing)
    note_followed_grants(conn, table_id)
    return changes


def render_grant(grant: Grant) -> str:
    column = f" ({grant.column})" if grant.column else ""
    option = " with grant option" if grant.grantable else ""
    return f"{grant.privilege.lower()}{column} to {grant.grantee or 'everybody'}{option}"
