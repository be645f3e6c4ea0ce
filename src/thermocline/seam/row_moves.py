"""Rows of the application's that Thermocline itself puts in another place of the heap.

They are not written anew, so the user's triggers are kept out where we may: a superuser's session has them fire only
when they are enabled ALWAYS, any other role's session fires them all. A BEFORE trigger may then drop or change a row,
and an AFTER trigger change it again, so what arrived is compared with what was held, byte by byte, in the transaction
that moves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import sql

from thermocline.errors import ChangedByTrigger
from thermocline.runtime.pg import Connection, load_queries
from thermocline.seam.objects import SeamDefinition, column_list, key_matches

_QUERIES = load_queries("thermocline.seam", "queries/row_moves.sql")
_ALL = sql.SQL("true")


@contextmanager
def quiet_triggers(conn: Connection) -> Iterator[None]:
    """Keep the user's own triggers and foreign keys out, where the role may. Inside a transaction, which an error
    ends."""
    conn.execute(_QUERIES["quiet_triggers"])
    yield
    conn.execute(_QUERIES["loud_triggers"])


def hold_lacking(
    conn: Connection, seam: SeamDefinition, filled: sql.Composable, place: sql.Composable
) -> tuple[sql.Identifier, int]:
    """Keep the rows whose keys the place lacks, for the rest of the transaction; where, and how many they are."""
    key_is = key_matches(seam.heap.primary_key, "h", "s")
    held = conn.execute(sql.SQL(_QUERIES["hold_lacking"]).format(filled=filled, place=place, key_is=key_is)).rowcount
    return sql.Identifier("pg_temp", "thermocline_lacking"), held


def count_rows(conn: Connection, place: sql.Composable) -> int:
    return _read_count(conn, sql.SQL(_QUERIES["count"]).format(place=place))


def check_arrived(
    conn: Connection,
    seam: SeamDefinition,
    held: sql.Composable,
    place: sql.Composable,
    what: str,
    *,
    condition: sql.Composable = _ALL,
) -> None:
    """Refuse unless each row that was held is in its place, the same in every byte; deferred triggers have fired by
    then.

    Generated columns are computed anew where a row arrives, maybe otherwise than they were: they are not compared.
    """
    conn.execute(_QUERIES["fire_deferred"])
    names = [column.name for column in seam.heap.columns if not column.generated]
    columns = {f"{alias}_columns": column_list(names, alias) for alias in ("h", "d")}
    if missing := _compare(conn, seam, "not_arrived", held, place, condition, columns):
        raise ChangedByTrigger(
            f"A trigger drops or changes {missing:,} of the rows that {what}, so none of them was moved."
        )


def check_left(
    conn: Connection,
    seam: SeamDefinition,
    held: sql.Composable,
    place: sql.Composable,
    what: str,
    *,
    condition: sql.Composable = _ALL,
) -> None:
    """Refuse while a key that was held is in the place that its row was to leave."""
    if kept := _compare(conn, seam, "still_there", held, place, condition, {}):
        raise ChangedByTrigger(f"A trigger keeps {kept:,} of the rows that {what}, so nothing was changed.")


def check_count(conn: Connection, place: sql.Composable, expected: int, what: str) -> None:
    """Refuse rows that came along with those that were put: a trigger wrote them."""
    if (found := count_rows(conn, place)) != expected:
        raise ChangedByTrigger(
            f"A trigger writes rows of its own: there are {found:,} where {expected:,} {what}, so none of "
            "them was moved."
        )


def _compare(
    conn: Connection,
    seam: SeamDefinition,
    query: str,
    held: sql.Composable,
    place: sql.Composable,
    condition: sql.Composable,
    columns: dict[str, sql.Composed],
) -> int:
    key_is = key_matches(seam.heap.primary_key, "h", "d")
    return _read_count(
        conn, sql.SQL(_QUERIES[query]).format(held=held, place=place, condition=condition, key_is=key_is, **columns)
    )


def _read_count(conn: Connection, query: sql.Composed) -> int:
    row = conn.execute(query).fetchone()
    assert row is not None
    return int(row[0])
