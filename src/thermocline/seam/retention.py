"""The retention line in Postgres: raised before the lake forgets, so that nothing is written below it; published with
the purge.

Every write that reaches the spill or a sealed partition takes a share lock on the line's row. Raising it therefore
waits out the writers in flight, and whoever comes later is refused (or, with an older snapshot, told to run again):
what the purge does not see cannot be there.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from thermocline.core.axis import KeyType
from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries
from thermocline.seam.objects import key_expression
from thermocline.seam.partitions import short_locks

_QUERIES = load_queries("thermocline.seam", "queries/retention.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """A table whose old rows expire: what the purge needs to know of it."""

    table_id: int
    delta: TableName
    spill: TableName
    tier_key: str
    key_type: KeyType


def read_bounds(conn: Connection, table_id: int) -> tuple[tuple[int, int, bool], ...]:
    """Bounds of every partition there was, and whether the heap still has it."""
    return tuple(conn.execute(_QUERIES["bounds"], {"table_id": table_id}).fetchall())


def read_line(conn: Connection, table_id: int) -> int | None:
    row = conn.execute(_QUERIES["line"], {"table_id": table_id}).fetchone()
    return row[0] if row else None


def raise_line(conn: Connection, table_id: int, line: int, lock_timeout_ms: int) -> None:
    """From the commit of this on, no write below the line succeeds, and all that did are visible."""
    with short_locks(conn, lock_timeout_ms, [], "raise the retention line"):
        conn.execute(_QUERIES["raise_line"], {"table_id": table_id, "line": line})


def apply_expiry(conn: Connection, table: Expiring) -> str | None:
    """Publish the line and purge what waits below it, in the caller's transaction; why rows stay in the spill, if they
    do."""
    line = read_line(conn, table.table_id)
    conn.execute(_QUERIES["publish_line"], {"table_id": table.table_id, "line": line})
    parts = {
        "delta": sql.Identifier(table.delta.schema, table.delta.table),
        "spill": sql.Identifier(table.spill.schema, table.spill.table),
        "tier_key": sql.Identifier(table.tier_key),
        "line": key_expression(table.key_type, sql.Literal(str(line))),
    }
    reason = None
    try:
        with conn.transaction():
            conn.execute(_QUERIES["quiet_triggers"])
            conn.execute(sql.SQL(_QUERIES["purge_spill"]).format(**parts))
    except psycopg.OperationalError:
        raise
    except psycopg.DatabaseError as refused:
        reason = (
            f"expired rows stay in {table.spill}, unseen, for a trigger or a rule of the user's refuses their "
            f"delete: {refused}"
        )
    conn.execute(sql.SQL(_QUERIES["purge_delta"]).format(**parts))
    return reason
