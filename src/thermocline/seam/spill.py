"""The spill: rows that no partition covers. Each of them has a correction, or is in the lake as it is here."""

from __future__ import annotations

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries
from thermocline.seam.objects import SeamDefinition, column_list, key_expression, key_matches

_QUERIES = load_queries("thermocline.seam", "queries/spill.sql")


def count_unmirrored(conn: Connection, seam: SeamDefinition, t: int, below: int | None = None) -> int:
    """Rows at or above T, and below another line, without a correction of the same image: nobody would see them once T
    has passed them."""
    return _count(conn, _composed("count_unmirrored", seam, t=t, below=below))


def apply_mirror(conn: Connection, seam: SeamDefinition, t: int) -> int:
    """Write the corrections that rows at or above T lack; how many."""
    return conn.execute(_composed("mirror", seam, t=t)).rowcount


def count_unaccounted(
    conn: Connection, seam: SeamDefinition, condition: sql.Composable, filled: TableName | None
) -> int:
    """Rows of a range that neither the corrections held by `seam/restore_rows.py` nor the table filled for the range
    have."""
    and_not_filled: sql.Composable = sql.SQL("")
    if filled is not None:
        parts = {
            "filled": sql.Identifier(filled.schema, filled.table),
            "filled_key": key_matches(seam.heap.primary_key, "f", "h"),
        }
        and_not_filled = sql.SQL(_QUERIES["and_not_filled"]).format(
            **parts, f_columns=column_list(_names(seam), "f"), h_columns=column_list(_names(seam), "h")
        )
    return _count(conn, _composed("unaccounted", seam, condition=condition, and_not_filled=and_not_filled))


def _composed(
    name: str, seam: SeamDefinition, t: int | None = None, below: int | None = None, **more: sql.Composable
) -> sql.Composed:
    objects, names = seam.objects, _names(seam)
    parts = {
        "delta": sql.Identifier(objects.delta.schema, objects.delta.table),
        "spill": sql.Identifier(objects.spill.schema, objects.spill.table),
        "tier_key": sql.Identifier(seam.tier_key),
        "columns": column_list(names),
        "h_columns": column_list(names, "h"),
        "d_columns": column_list(names, "d"),
        "key_columns": column_list([column.name for column in seam.heap.primary_key]),
        "columns_from_excluded": sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(column)) for column in names
        ),
        "same_key": key_matches(seam.heap.primary_key, "d", "h"),
        **more,
    }
    if t is not None:
        parts["t"] = key_expression(seam.key_type, sql.Literal(str(t)))
        key = sql.Identifier("h", seam.tier_key)
        line = None if below is None else key_expression(seam.key_type, sql.Literal(str(below)))
        parts["and_below"] = sql.SQL("") if line is None else sql.SQL("and {} < {}").format(key, line)
        parts["unmirrored"] = sql.SQL(_QUERIES["unmirrored"]).format(**parts)
    return sql.SQL(_QUERIES[name]).format(**parts)


def _count(conn: Connection, statement: sql.Composed) -> int:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def _names(seam: SeamDefinition) -> list[str]:
    return [column.name for column in seam.heap.columns]
