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
from thermocline.runtime.pg import Connection
from thermocline.seam.objects import SeamDefinition
from thermocline.seam.render import Templates

_QUERIES = Templates.load("row_moves.sql")
_ALL = sql.SQL("true")


def silence_user_triggers(conn: Connection) -> None:
    """Keep the user's own triggers and foreign keys from firing until the transaction ends, where the role may."""
    conn.execute(_QUERIES["silence_triggers"])


@contextmanager
def user_triggers_silenced(conn: Connection) -> Iterator[None]:
    """The same for a part of a transaction; an error ends the transaction."""
    silence_user_triggers(conn)
    yield
    conn.execute(_QUERIES["restore_triggers"])


def copy_lacking_rows(
    conn: Connection, seam: SeamDefinition, filled: sql.Composable, place: sql.Composable
) -> tuple[sql.Identifier, int]:
    """Keep the rows whose keys the place lacks, for the rest of the transaction; where, and how many they are."""
    held = conn.execute(_QUERIES.render("copy_lacking_rows", seam, filled=filled, place=place)).rowcount
    return sql.Identifier("pg_temp", "thermocline_lacking"), held


def count_rows(conn: Connection, place: sql.Composable) -> int:
    return _read_count(conn, _QUERIES.render("count", None, place=place))


def check_rows_arrived(
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
    if missing := _compare(conn, seam, "not_arrived", held, place, condition):
        raise ChangedByTrigger(
            f"A trigger drops or changes {missing:,} of the rows that {what}, so none of them was moved."
        )


def check_rows_left(
    conn: Connection,
    seam: SeamDefinition,
    held: sql.Composable,
    place: sql.Composable,
    what: str,
    *,
    condition: sql.Composable = _ALL,
) -> None:
    """Refuse while a key that was held is in the place that its row was to leave."""
    if kept := _compare(conn, seam, "still_there", held, place, condition):
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
) -> int:
    return _read_count(conn, _QUERIES.render(query, seam, held=held, place=place, condition=condition))


def _read_count(conn: Connection, query: sql.Composed) -> int:
    row = conn.execute(query).fetchone()
    assert row is not None
    return int(row[0])
