"""What the lake retention of a table deletes from the lake as it is now, and the check that somebody was told of it."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.catalog import journal
from thermocline.catalog.tables import RegisteredTable
from thermocline.core.axis import AXIS_MIN, render_axis
from thermocline.errors import SettingsChanged
from thermocline.ops.tier.jumps import read_next_retention_line
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.ops", "queries/expiry.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What a lake retention deletes: rows of the lake below a line, as they were counted when they moved."""

    below: str
    rows: int
    line: int
    """`below` on the axis."""

    def __str__(self) -> str:
        return f"About {self.rows:,} rows below {self.below} will be deleted from the lake"


def read_expiry(conn: Connection, registered: RegisteredTable) -> Expiry | None:
    """The rows that the retention deletes from the lake as it is now."""
    cut = journal.read_cutline(conn, registered.id)
    line, _ = read_next_retention_line(conn, registered, cut)
    if line is None:
        return None
    values = {"table_id": registered.id, "line": line, "current": AXIS_MIN if cut.r is None else cut.r}
    row = conn.execute(_QUERIES["rows_below"], values).fetchone()
    assert row is not None
    return Expiry(below=render_axis(registered.key_type, line), rows=int(row[0]), line=line)


def check_told(registered: RegisteredTable, told: Expiry | None, found: Expiry | None) -> None:
    """Refuse when more would be deleted than somebody agreed to."""
    if found is not None and (told is None or found.line > told.line):
        raise SettingsChanged(
            f"The line below which rows of {registered.name} are deleted is at {found.below} now, and was "
            f"{'nowhere' if told is None else f'at {told.below}'} when it was confirmed; nothing was changed."
        )
