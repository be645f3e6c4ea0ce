"""Whether this database may change its lake: it is the one whose lake it names, not a copy, and it knows the lake's
newest commits.

A copy would delete files that the original needs. A database that was restored to an earlier moment would delete files
that only the lake's later commits name; each start of Postgres has its lakes compared with the journal first
(`ops/unjournaled_commits.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from thermocline.errors import CopiedDatabase, LakesNotCompared
from thermocline.runtime.pg import Connection


def check_home(conn: Connection) -> None:
    """Refuse to move, rewrite or delete anything of the lake from a copy, or before the lakes were compared with the
    journal."""
    if not is_home(conn):
        raise CopiedDatabase(f"Database {conn.info.dbname} is a copy of the one that its lake belongs to.")
    if not are_lakes_checked(conn):
        raise LakesNotCompared(
            f"The lakes of database {conn.info.dbname} were not compared with its journal since Postgres started."
        )


def is_home(conn: Connection) -> bool:
    return conn.execute("select thermocline.is_home()").fetchone() == (True,)


def are_lakes_checked(conn: Connection) -> bool:
    """Whether the lakes were compared with the journal since Postgres started."""
    return conn.execute("select thermocline.lakes_are_checked()").fetchone() == (True,)


def read_start(conn: Connection) -> datetime:
    """When this Postgres was started."""
    row = conn.execute("select pg_catalog.pg_postmaster_start_time()").fetchone()
    assert row is not None
    started: datetime = row[0]
    return started


def note_lakes_checked(conn: Connection, started: datetime) -> None:
    """The lakes were compared under the Postgres that was started then."""
    conn.execute("update thermocline.home set lakes_checked = %s", [started])


def is_op_known(conn: Connection, op_id: str) -> bool:
    """Whether the journal knows an op, whatever became of it."""
    return conn.execute(
        "select exists (select from thermocline.op_log where op_id::text = %s)", [op_id]
    ).fetchone() == (True,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbound:
    """A registered table that this database has not, as far as anybody can tell, and why."""

    table: str
    reason: str


def claim_home(conn: Connection) -> tuple[Unbound, ...]:
    """This database is the original from now on; the tables that could not be found in it."""
    return tuple(
        Unbound(table=table, reason=reason) for table, reason in conn.execute("select * from thermocline.claim_home()")
    )
