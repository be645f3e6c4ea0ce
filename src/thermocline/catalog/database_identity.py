"""Whether this database may change its lakes: it is the original, not a copy, and its journal has their newest commits.

A copy would delete files that the original needs. A database that was restored to an earlier moment would delete files
that only later commits of the lake reference. So the lakes are compared with the journal after every start of Postgres
(`ops/unjournaled_commits.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from thermocline.errors import CopiedDatabase, LakesNotCompared
from thermocline.runtime.pg import Connection


def check_may_change_lakes(conn: Connection) -> None:
    """Refuse to move, rewrite or delete anything of a lake in a copied database, or before the comparison with the
    journal."""
    if not is_original(conn):
        raise CopiedDatabase(f"Database {conn.info.dbname} is a copy of the one that its lake belongs to.")
    if not are_lakes_checked(conn):
        raise LakesNotCompared(
            f"The lakes of database {conn.info.dbname} were not compared with its journal since Postgres started."
        )


def is_original(conn: Connection) -> bool:
    """Whether the tables were registered in this database, as far as Postgres can tell."""
    return conn.execute("select thermocline.is_original_database()").fetchone() == (True,)


def are_lakes_checked(conn: Connection) -> bool:
    """Whether the lakes were compared with the journal since Postgres started."""
    return conn.execute("select thermocline.lakes_are_checked()").fetchone() == (True,)


def read_postmaster_start(conn: Connection) -> datetime:
    row = conn.execute("select pg_catalog.pg_postmaster_start_time()").fetchone()
    assert row is not None
    started: datetime = row[0]
    return started


def record_lakes_checked(conn: Connection, started: datetime) -> None:
    """Record that the lakes were compared under the Postgres that started at this time."""
    conn.execute("update thermocline.database_identity set lakes_checked = %s", [started])


def is_op_in_journal(conn: Connection, op_id: str) -> bool:
    """Whether the journal has an op, in whatever phase."""
    return conn.execute(
        "select exists (select from thermocline.op_log where op_id::text = %s)", [op_id]
    ).fetchone() == (True,)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundTable:
    """A registered table that was not found in this database, and why."""

    table: str
    reason: str


def apply_claim(conn: Connection) -> tuple[UnboundTable, ...]:
    """Make this database the original; returns the tables that were not found in it."""
    cursor = conn.cursor(row_factory=class_row(UnboundTable))
    return tuple(cursor.execute('select heap as "table", reason from thermocline.claim_database()'))
