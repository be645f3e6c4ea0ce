"""The two literals of the seam: the line of the lake's arm, raised before T; the floor of the heap's, raised when
nobody sees an older T.

Both let the planner leave a tier out. Each is raised in a short transaction that rebuilds the view and notes the
literal under the writer's token; `docs/decisions/0001` and `0022` tell why in this order.
"""

from __future__ import annotations

from thermocline.catalog import journal
from thermocline.core.observation import CutLine
from thermocline.errors import LockNotGranted
from thermocline.runtime.pg import Connection
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.floor import apply_floor, lock_seam, plan_floor
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.objects import SeamDefinition, apply_cutline_literal


def apply_seam_line(conn: Connection, seam: SeamDefinition, cut: CutLine, line: int, settings: Settings) -> None:
    """Raise the literal in the seam before T: above T it is slower for queries in between, below T it would hide rows
    of the lake."""
    if cut.seam_line >= line:
        return
    with short_locks(conn, settings.lock_timeout_ms, _view(conn, seam), f"rebuild the seam {seam.objects.seam}"):
        lock_seam(conn, seam)
        apply_cutline_literal(conn, seam, line)
        journal.raise_seam_line(conn, seam.table_id, cut.fence, line)


def apply_seam_floor(conn: Connection, seam: SeamDefinition, fence: int, settings: Settings) -> bool:
    """Raise the heap arm's literal to T, if every live snapshot sees that T; whether it was. Whoever keeps us from it
    delays it only."""
    floor = plan_floor(conn, seam.table_id, settings.standby_grace_seconds)
    if floor is None:
        return False
    try:
        with short_locks(conn, settings.lock_timeout_ms, _view(conn, seam), f"rebuild the seam {seam.objects.seam}"):
            apply_floor(conn, seam, floor)
            journal.raise_seam_floor(conn, seam.table_id, fence, floor)
    except LockNotGranted:
        return False
    return True


def _view(conn: Connection, seam: SeamDefinition) -> list[int]:
    return [row[0] for row in conn.execute("select to_regclass(%s)::oid", [str(seam.objects.seam)])]
