"""Strides that are longer than usual, read off the table; and `tier --accept-jump`, by which the operator allows the
one that waits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from thermocline.catalog import accepted_jumps as jumps
from thermocline.catalog import journal, tables
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.axis import AXIS_MAX, AXIS_MIN, render_axis
from thermocline.core.names import TableName
from thermocline.core.observation import CutLine, PartitionObservation
from thermocline.core.plan.jumps import Jump, plan_cutline_jump, plan_retention_jump
from thermocline.core.plan.retention import plan_retention_line
from thermocline.errors import JumpNotPending
from thermocline.ops.spanning_table import SpanningTable, read_spanning
from thermocline.runtime.pg import Connection, connect
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.partitions import read_lowest_key_above, read_now, read_partition_observations
from thermocline.seam.retention import read_partition_bounds


def read_jump(
    conn: Connection, table: SpanningTable, partitions: Sequence[PartitionObservation], cut: CutLine
) -> Jump | None:
    """The jump that rows far ahead would have the cut-line make."""
    top = max(partitions[-1].hi, cut.t) if partitions else cut.t
    until = table.registered.lake_until
    return plan_cutline_jump(
        table.registered.key_type,
        partitions,
        cut.t,
        # Of a lake that is adopted T starts below what the heap kept, wherever its rows begin.
        is_first=cut.s is None or (until is not None and cut.t < until),
        beyond=read_lowest_key_above(conn, table.seam, top),
        accepted=jumps.read_accepted(conn, table.registered.id).t,
    )


def read_next_retention_line(
    conn: Connection, registered: RegisteredTable, cut: CutLine, leaving: Collection[tuple[int, int]] = ()
) -> tuple[int | None, Jump | None]:
    """Where the retention line may be raised to once the partitions with the bounds in `leaving` left the heap, and the
    jump that this would be."""
    if registered.lake_retention is None or not registered.mode.allows_lake_retention or cut.s is None:
        return None, None
    seen = read_partition_bounds(conn, registered.id)
    line = plan_retention_line(
        cut.t,
        registered.lake_retention,
        [end for lo, hi, _ in seen for end in (lo, hi)],
        min((lo for lo, hi, is_held in seen if is_held and (lo, hi) not in leaving), default=AXIS_MAX),
        AXIS_MIN if cut.r is None else cut.r,
        now=read_now(conn, registered.key_type),
    )
    if line is None:
        return None, None
    accepted = jumps.read_accepted(conn, registered.id).r
    return line, plan_retention_jump(registered.key_type, [(lo, hi) for lo, hi, _ in seen], cut.r, line, accepted)


def accept_jump(dsn: str, name: TableName, place: str) -> str:
    """Let the line that waits to go to this place go there, and no further; what was allowed, in a sentence."""
    with connect(dsn, autocommit=True, application_name="thermocline tier") as conn:
        table = read_spanning(conn, name)
        registered, cut = table.registered, journal.read_cutline(conn, table.registered.id)
        partitions = read_partitions(conn, table.heap, registered.key_type)
        seen = read_partition_observations(conn, partitions, {p.oid: "hot" for p in partitions}, cut.t)
        jump, line_jump = read_jump(conn, table, seen, cut), read_next_retention_line(conn, registered, cut)[1]
        waiting = {
            what: render_axis(registered.key_type, found.to)
            for what, found in (("cut-line", jump), ("retention line", line_jump))
            if found is not None
        }
        allowed = [what for what, to in waiting.items() if to == place]
        if not allowed:
            others = "; ".join(f"the {what} waits to go to {to}" for what, to in waiting.items()) or "nothing waits"
            raise JumpNotPending(f"No line of {name} waits to go to {place}: {others}.")
        jumps.accept(
            conn,
            registered.id,
            t=jump.to if jump is not None and "cut-line" in allowed else None,
            r=line_jump.to if line_jump is not None and "retention line" in allowed else None,
        )
        sentence = f"{name}: the {' and the '.join(allowed)} may go to {place}, the operator said"
        tables.insert_event(conn, registered.id, "accept", f"{sentence}.")
        return sentence
