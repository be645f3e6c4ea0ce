"""What each table has had so far: ops by kind and outcome, cycles by outcome, partitions by state. No lake and no delta
is read."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.core.names import TableName
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/totals.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTotal:
    """The ops of one kind of a table: how many ended which way, and what they wrote."""

    table: TableName
    kind: str
    published: int
    abandoned: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTotal:
    """The cut-line, the cycles and the waiting corrections of a table."""

    table: TableName
    t: int
    snapshot: int | None
    finished: int
    failed: int
    cycle_at_seconds: float | None
    waiting_rows: int | None
    waiting_seconds: float | None
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotal:
    """How many partitions of a table are in one state."""

    table: TableName
    state: str
    partitions: int


def read_op_totals(conn: Connection) -> tuple[OpTotal, ...]:
    return tuple(
        OpTotal(
            table=TableName(row.schema_name, row.table_name),
            kind=row.kind,
            published=row.published,
            abandoned=row.abandoned,
            rows=row.rows,
            bytes=row.bytes,
        )
        for row in rows_by_name(conn).execute(_QUERIES["ops"])
    )


def read_table_totals(conn: Connection) -> tuple[TableTotal, ...]:
    return tuple(
        TableTotal(
            table=TableName(row.schema_name, row.table_name),
            t=row.t,
            snapshot=row.s,
            finished=row.finished,
            failed=row.failed,
            cycle_at_seconds=row.cycle_at_seconds,
            waiting_rows=row.waiting_rows,
            waiting_seconds=row.waiting_seconds,
            is_paused=row.is_paused,
        )
        for row in rows_by_name(conn).execute(_QUERIES["tables"])
    )


def read_partition_totals(conn: Connection) -> tuple[PartitionTotal, ...]:
    return tuple(
        PartitionTotal(table=TableName(row.schema_name, row.table_name), state=row.state, partitions=row.partitions)
        for row in rows_by_name(conn).execute(_QUERIES["partitions"])
    )
