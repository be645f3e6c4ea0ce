"""Heaps partitioned by month, for the benches that fill one."""

from __future__ import annotations

from datetime import UTC, datetime

from psycopg import sql

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection


def make_months(conn: Connection, table: TableName, first_year: int, months: int) -> None:
    """`table`_00, _01, …: one partition a month, from January of the first year on."""
    for number in range(months):
        make_partition(conn, table, f"{number:02d}", _month(first_year, number), _month(first_year, number + 1))


def make_partition(conn: Connection, table: TableName, suffix: str, low: datetime, high: datetime) -> None:
    """The partition `table`_suffix of the rows from `low` up to `high`."""
    made = sql.SQL("create table {} partition of {} for values from ({}) to ({})").format(
        sql.Identifier(table.schema, f"{table.table}_{suffix}"),
        sql.Identifier(table.schema, table.table),
        sql.Literal(low),
        sql.Literal(high),
    )
    conn.execute(made)


def _month(first_year: int, number: int) -> datetime:
    return datetime(first_year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
