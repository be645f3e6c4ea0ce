"""Results of the background verifier: when each range below the cut-line was last compared, and how many rows
differed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from thermocline.core.names import TableName
from thermocline.core.verification import CheckedRange, RangeVerdict
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/verified.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How many rows of a table differ between the tiers, in the ranges compared so far."""

    table: TableName
    rows: int
    failed_ranges: int
    last_at_seconds: float


def read_due_tables(conn: Connection, interval_seconds: float) -> tuple[int, ...]:
    """The tables that were last compared longer ago than the interval, the longest first."""
    return tuple(row.id for row in rows_by_name(conn).execute(_QUERIES["due"], {"interval_seconds": interval_seconds}))


def read_checked(conn: Connection, table_id: int) -> dict[tuple[int, int], datetime]:
    """When each range was last compared."""
    rows = rows_by_name(conn).execute(_QUERIES["checked"], {"table_id": table_id})
    return {(row.lo, row.hi): row.at for row in rows}


def note_range(conn: Connection, table_id: int, part: CheckedRange, verdict: RangeVerdict) -> None:
    values = {"table_id": table_id, "lo": part.lo, "hi": part.hi, "range": part.name}
    conn.execute(_QUERIES["note"], {**values, "drift_rows": verdict.drift_rows, "problem": verdict.problem})


def forget_others(conn: Connection, table_id: int, ranges: Sequence[CheckedRange]) -> None:
    """Delete the results of all other ranges: partitions were merged, or the retention line passed them."""
    conn.execute(
        _QUERIES["forget"],
        {"table_id": table_id, "los": [part.lo for part in ranges], "his": [part.hi for part in ranges]},
    )


def read_drift(conn: Connection) -> tuple[Drift, ...]:
    return tuple(
        Drift(
            table=TableName(row.schema_name, row.table_name),
            rows=row.drift_rows,
            failed_ranges=row.failed_ranges,
            last_at_seconds=float(row.last_at_seconds),
        )
        for row in rows_by_name(conn).execute(_QUERIES["drift"])
    )
