"""The spill: rows that no partition covers. Each of them has a correction, or is in the lake as it is here."""

from __future__ import annotations

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, table_identifier
from thermocline.seam.objects import SeamDefinition
from thermocline.seam.render import Templates, axis_value

_QUERIES = Templates.load("spill.sql")


def count_uncaptured(conn: Connection, seam: SeamDefinition, t: int, below: int | None = None) -> int:
    """Rows at or above T, and below another limit, without a correction of the same image: nobody would see them once T
    has passed them."""
    return _count(conn, _QUERIES.render("count_uncaptured", seam, **_range(seam, t, below)))


def apply_missing_corrections(conn: Connection, seam: SeamDefinition, t: int) -> int:
    """Write the corrections that rows at or above T lack; how many."""
    return conn.execute(_QUERIES.render("correct_uncaptured", seam, **_range(seam, t, None))).rowcount


def count_unaccounted(
    conn: Connection, seam: SeamDefinition, condition: sql.Composable, filled: TableName | None
) -> int:
    """Rows of a range that neither the corrections held by `seam/heap/restore_rows.py` nor the table filled for the
    range have."""
    and_not_filled: sql.Composable = sql.SQL("")
    if filled is not None:
        and_not_filled = _QUERIES.render("and_not_filled", seam, filled=table_identifier(filled))
    return _count(conn, _QUERIES.render("unaccounted", seam, condition=condition, and_not_filled=and_not_filled))


def _range(seam: SeamDefinition, t: int, below: int | None) -> dict[str, sql.Composable]:
    and_below: sql.Composable = sql.SQL("")
    if below is not None:
        key = sql.Identifier("h", seam.tier_key)
        and_below = sql.SQL("and {} < {}").format(key, axis_value(seam.key_type, below))
    return {"t": axis_value(seam.key_type, t), "and_below": and_below}


def _count(conn: Connection, statement: sql.Composed) -> int:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return int(row[0])
