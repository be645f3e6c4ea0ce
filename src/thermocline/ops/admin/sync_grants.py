"""sync-grants: the seam grants what the heap grants, nothing more and nothing less. One transaction."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.core.names import TableName
from thermocline.ops.spanning_table import read_spanning
from thermocline.runtime.pg import connect
from thermocline.seam.grants import apply_grant_changes, note_followed_grants, read_grant_changes, render_grant
from thermocline.seam.schema_changes import note_seam


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantReport:
    """What changed on one seam."""

    table: str
    seam: str
    granted: tuple[str, ...]
    revoked: tuple[str, ...]
    dry_run: bool

    @property
    def sentence(self) -> str:
        if not self.granted and not self.revoked:
            return f"{self.seam} grants what {self.table} grants."
        verbs = ("would grant", "would revoke") if self.dry_run else ("granted", "revoked")
        done = [
            f"{verb} {what}" for verb, list_ in zip(verbs, (self.granted, self.revoked), strict=True) for what in list_
        ]
        return f"{self.seam}: {'; '.join(done)}."


def sync_grants(dsn: str, name: TableName, *, dry_run: bool = False) -> GrantReport:
    """Renew the seam's grants from the heap's."""
    with connect(dsn, application_name="thermocline sync-grants") as conn:
        table = read_spanning(conn, name)
        objects = table.seam.objects
        change = read_grant_changes if dry_run else apply_grant_changes
        changes = change(conn, table.heap, objects)
        if not dry_run:
            note_followed_grants(conn, table.registered.id)
            note_seam(conn, table.registered.id)
        conn.commit()
    return GrantReport(
        table=str(name),
        seam=str(objects.seam),
        granted=tuple(render_grant(grant) for grant in changes.missing),
        revoked=tuple(render_grant(grant) for grant in changes.surplus),
        dry_run=dry_run,
    )
