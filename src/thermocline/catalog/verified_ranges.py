"""What the background verifier found: each range below the cut-line, when it was compared last, and how many rows
differed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from thermocline.core.names import TableName
from thermocline.core.verification import CheckedRange, RangeVerdict
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.catalog", "queries/verified.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far the tiers of a table are apart, over the ranges compared so far."""

    table: TableName
    rows: int
    failed_ranges: int
    last_at_seconds: float


def read_due_tables(conn: Connection, interval_seconds: float) -> tuple[int, ...]:
    """The tables whose last comparison is longer ago than the interval, the longest first."""
    return tuple(row[0] for row in conn.execute(_QUERIES["due"], {"interval_seconds": interval_seconds}))


def read_checked(conn: Connection, table_id: int) -> dict[tuple[int, int], datetime]:
    """When each range was compared last."""
    return {(lo, hi): at for lo, hi, at in conn.execute(_QUERIES["checked"], {"table_id": table_id})}


def note_range(conn: Connection, table_id: int, part: CheckedRange, verdict: RangeVerdict) -> None:
    values = {"table_id": table_id, "lo": part.lo, "hi": part.hi, "range": part.name}
    conn.execute(_QUERIES["note"], {**values, "drift_rows": verdict.drift_rows, "problem": verdict.problem})


def forget_others(conn: Connection, table_id: int, ranges: Sequence[CheckedRange]) -> None:
    """Ranges that are no more, because partitions grew together or retention passed them."""
    conn.execute(
        _QUERIES["forget"],
        {"table_id": table_id, "los": [part.lo for part in ranges], "his": [part.hi for part in ranges]},
    )


def read_drift(conn: Connection) -> tuple[Drift, ...]:
    return tuple(
        Drift(table=TableName(schema, name), rows=rows, failed_ranges=failed, last_at_seconds=float(at))
        for schema, name, rows, failed, at in conn.execute(_QUERIES["drift"])
    )
