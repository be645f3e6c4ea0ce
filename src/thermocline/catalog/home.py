"""Whether this database is the one whose lake it names, or a copy of it: a copy would delete files that the original needs."""

from __future__ import annotations

from thermocline.errors import CopiedDatabase
from thermocline.pg import Connection


def check_home(conn: Connection) -> None:
    """Refuse to move, rewrite or delete anything of the lake from a copy."""
    if conn.execute("select thermocline.is_home()").fetchone() != (True,):
        raise CopiedDatabase(f"Database {conn.info.dbname} is a copy of the one that its lake belongs to.")


def claim_home(conn: Connection) -> None:
    """This database is the original from now on."""
    conn.execute("select thermocline.claim_home()")
