"""The retention line in Postgres: raised before the lake forgets, so that nothing is written below it; published with
the purge.

Every write that reaches the spill or a sealed partition takes a share lock on the line's row. Raising it therefore
waits out the writers in flight, and whoever comes later is refused (or, with an older snapshot, told to run again):
what the purge does not see cannot be there.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

import psycopg
from psycopg import sql

from thermocline.core.axis import KeyType
from thermocline.core.names import TableName
from thermocline.core.plan.stopped import render_stopped
from thermocline.runtime.pg import Connection, rows_by_name, table_identifier
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.heap.row_moves import silence_user_triggers
from thermocline.seam.objects import SeamObjects, lock_captured
from thermocline.seam.render import Templates, axis_value

_QUERIES = Templates.load("retention.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLine:
    """Where the retention line is to go, the lake retention that it was planned by, and whether a worker does it by
    itself."""

    line: int
    lake_retention: int
    by_itself: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringTable:
    """A table whose old rows expire: what the purge needs to know of it."""

    table_id: int
    delta: TableName
    spill: TableName
    tier_key: str
    key_type: KeyType


def read_partition_bounds(conn: Connection, table_id: int) -> tuple[tuple[int, int, bool], ...]:
    """Bounds of every partition there was, and whether the heap still has it."""
    return tuple(conn.execute(_QUERIES["bounds"], {"table_id": table_id}).fetchall())


def read_retention_line(conn: Connection, table_id: int) -> int | None:
    row = conn.execute(_QUERIES["line"], {"table_id": table_id}).fetchone()
    return row[0] if row else None


def raise_retention_line(conn: Connection, table_id: int, line: int, lock_timeout_ms: int) -> None:
    """From the commit of this on, no write below the line succeeds, and all that did are visible."""
    with short_locks(conn, lock_timeout_ms, [], "raise the retention line"):
        conn.execute(_QUERIES["raise_retention_line"], {"table_id": table_id, "line": line})


def expire_below(
    conn: Connection, table_id: int, objects: SeamObjects, plan: PlannedLine, lock_timeout_ms: int
) -> str | None:
    """Raise the line of a table as it was planned; why not, when the settings do not ask for it any more.

    What they are is decided in the transaction that raises the line: rows that somebody decided to keep since the
    cycle began do not expire.
    """
    with short_locks(conn, lock_timeout_ms, [], "raise the retention line"):
        values = {"table_id": table_id, "planned": plan.lake_retention, "by_itself": plan.by_itself}
        held = rows_by_name(conn).execute(_QUERIES["hold_retention"], values).fetchone()
        if held is None or not held.is_planned:
            return f"the lake retention of {objects.heap} was changed while this cycle ran: the next cycle decides anew"
        if not held.may_expire:
            return render_stopped(objects.heap)
        if conn.execute(_QUERIES["checks_line"], {"function": f"{objects.functions}_capture"}).fetchone() != (True,):
            lock_captured(conn, objects)
            conn.execute(_QUERIES["apply_functions"], {"table_id": table_id})
        conn.execute(_QUERIES["raise_retention_line"], {"table_id": table_id, "line": plan.line})
    return None


def read_line_of_op(conn: Connection, table_id: int, op_id: uuid.UUID) -> int:
    """The line that a pass of retention deleted rows up to. The table's own line may be higher: a pass that failed
    raised it, and the retention was made longer since."""
    row = conn.execute(_QUERIES["line_of_op"], {"table_id": table_id, "op_id": op_id}).fetchone()
    assert row is not None  # every table that expires rows has a retention row
    return int(row[0])


def apply_expiry(conn: Connection, table: ExpiringTable, line: int) -> str | None:
    """Publish the line and purge what waits below it, in the caller's transaction; why rows stay in the spill, if they
    do."""
    conn.execute(_QUERIES["publish_line"], {"table_id": table.table_id, "line": line})
    parts = {
        "delta": table_identifier(table.delta),
        "spill": table_identifier(table.spill),
        "tier_key": sql.Identifier(table.tier_key),
        "line": axis_value(table.key_type, line),
    }
    reason = None
    try:
        with conn.transaction():
            silence_user_triggers(conn)
            conn.execute(_QUERIES.render("purge_spill", None, **parts))
    except psycopg.OperationalError:
        raise
    except psycopg.DatabaseError as refused:
        reason = (
            f"expired rows stay in {table.spill}, unseen, for a trigger or a rule of the user's refuses their "
            f"delete: {refused}"
        )
    conn.execute(_QUERIES.render("purge_delta", None, **parts))
    return reason
