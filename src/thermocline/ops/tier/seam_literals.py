"""The two literals of the seam: the line of the lake's arm, raised before T; the floor of the heap's, raised when
nobody sees an older T.

Both let Postgres leave a tier out. The line is also the upper bound of the foreign table in the partitioned parent that
the lake's arm reads. Each is raised in a short transaction that rebuilds the view and notes the literal under the
writer's token; `docs/decisions/0001`, `0022` and `0040` give the reason for this order.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from thermocline.catalog import journal
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine
from thermocline.errors import LockNotGranted
from thermocline.runtime.pg import Connection, table_identifier
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.floor import apply_floor, lock_seam, plan_floor, rebuild_view
from thermocline.seam.heap.partitions import read_blocker, short_locks
from thermocline.seam.objects import SeamDefinition, apply_cutline_literal, lake_range_tables


def apply_seam_line(conn: Connection, seam: SeamDefinition, cut: CutLine, line: int, settings: Settings) -> None:
    """Raise the literal in the seam before T: above T it is slower for queries in between, below T it would hide rows
    of the lake."""
    if cut.seam_line >= line:
        return
    parent, _ = lake_range_tables(seam.table_id)
    try:
        with short_locks(conn, settings.lock_timeout_ms, _oid(conn, seam.objects.seam), _rebuild(seam)):
            lock_seam(conn, seam)
            _lock_lake_range(conn, parent)
            apply_cutline_literal(conn, seam, line)
            journal.raise_seam_line(conn, seam.table_id, cut.fence, line)
    except _LakeRangeInUse as problem:
        holder = read_blocker(conn, _oid(conn, parent)) or "another session"
        raise LockNotGranted(
            f"{holder} holds {parent}, as pg_dump does until it ends: the lock to {_rebuild(seam)} is not waited for, "
            "because readers of the seam would wait, too."
        ) from problem


def apply_seam_floor(conn: Connection, seam: SeamDefinition, fence: int, settings: Settings) -> bool:
    """Raise the heap arm's literal to T, if every live snapshot sees that T; whether it was. Whoever keeps us from it
    delays it only."""
    floor = plan_floor(conn, seam.table_id, settings.standby_grace_seconds)
    if floor is None:
        return False
    try:
        with short_locks(conn, settings.lock_timeout_ms, _oid(conn, seam.objects.seam), _rebuild(seam)):
            apply_floor(conn, seam, floor)
            journal.raise_seam_floor(conn, seam.table_id, fence, floor)
    except LockNotGranted:
        return False
    return True


def apply_lake_range(conn: Connection, seam: SeamDefinition, settings: Settings) -> bool:
    """Rebuild a seam of an earlier release, whose lake arm reads the foreign table itself or which does not look at
    row-level security; whether it was."""
    parent, _ = lake_range_tables(seam.table_id)
    is_current = conn.execute(
        "select to_regclass(%s) is not null and pg_get_viewdef(to_regclass(%s)) ~ 'row_security_active'",
        [str(parent), str(seam.objects.seam)],
    ).fetchone()
    if is_current in ((True,), (None,)):
        return False
    try:
        with short_locks(conn, settings.lock_timeout_ms, _oid(conn, seam.objects.seam), _rebuild(seam)):
            lock_seam(conn, seam)
            rebuild_view(conn, seam)
    except LockNotGranted:
        return False
    return True


class _LakeRangeInUse(Exception):
    """Somebody holds a lock on the lake arm's parent."""


def _lock_lake_range(conn: Connection, parent: TableName) -> None:
    """Take the lock on the lake arm's parent at once or not at all: readers of the seam wait for us already."""
    if not _oid(conn, parent):
        return
    try:
        conn.execute(sql.SQL("lock table only {} in access exclusive mode nowait").format(table_identifier(parent)))
    except psycopg.errors.LockNotAvailable as problem:
        raise _LakeRangeInUse from problem


def _rebuild(seam: SeamDefinition) -> str:
    return f"rebuild the seam {seam.objects.seam}"


def _oid(conn: Connection, relation: TableName) -> list[int]:
    """The relation's OID; nothing where there is no such relation."""
    found = conn.execute("select to_regclass(%s)::oid", [str(relation)])
    return [row[0] for row in found if row[0] is not None]
