"""Following the heap's grants: what was granted or revoked on the heap since the last cycle is on the seam too."""

from __future__ import annotations

import psycopg

from thermocline.catalog.tables import RegisteredTable, insert_event
from thermocline.ops.spanning_table import objects_of
from thermocline.runtime.pg import Connection
from thermocline.runtime.settings import Settings
from thermocline.seam.grants import follow_grant_changes, render_grant
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.schema_changes import note_seam


def follow_grants(conn: Connection, registered: RegisteredTable, settings: Settings) -> tuple[str, ...]:
    """What was done, one sentence each. What this role may not grant is left to `thermocline sync-grants`; `doctor`
    names the table."""
    objects = objects_of(registered)
    if conn.execute("select to_regclass(%s) is null", [str(objects.seam)]).fetchone() == (True,):
        return ()
    try:
        with short_locks(conn, settings.lock_timeout_ms, [], f"grant on the seam of {registered.name}"):
            changes = follow_grant_changes(conn, registered.id, objects)
            done = [f"granted {render_grant(grant)}" for grant in changes.missing]
            done += [f"revoked {render_grant(grant)}" for grant in changes.surplus]
            if done:
                note_seam(conn, registered.id)
                insert_event(conn, registered.id, "grants", f"{objects.seam}: {'; '.join(done)}.")
    except psycopg.errors.InsufficientPrivilege:
        return ()
    return (f"its seam {'; '.join(done)}, as the table does",) if done else ()
