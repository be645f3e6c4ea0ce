"""`thermocline.lake_stats`: a row per table and version that was looked at; the newest row is the table's health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row, dict_row, scalar_row
from psycopg.types.json import Jsonb

from thermocline.catalog.safety import Owner
from thermocline.runtime.pg import Connection, load_queries, rows_by_name

_QUERIES = load_queries("thermocline.catalog", "queries/lake_stats.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRow:
    """The newest look. `warnings` are kept by key, each with its sentence and since when."""

    id: int
    metadata_location: str | None
    at: datetime
    checked_at: datetime
    stats: Mapping[str, Any]
    warnings: Mapping[str, Mapping[str, Any]]
    policy: Mapping[str, Any]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewStats:
    metadata_location: str | None
    stats: Mapping[str, Any]
    warnings: Mapping[str, Mapping[str, Any]]
    policy: Mapping[str, Any]
    problem: str | None = None


def read_stats(conn: Connection, owner: Owner) -> StatsRow | None:
    row = conn.cursor(row_factory=dict_row).execute(_QUERIES["newest"], owner.values()).fetchone()
    if row is None:
        return None
    return StatsRow(**{**row, "warnings": {str(warning["key"]): warning for warning in row["warnings"]}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """The newest figures of one table, and how many warnings it has."""

    table: str
    stats: Mapping[str, Any]
    warnings: int


def read_newest(conn: Connection) -> tuple[Noted, ...]:
    """What was last noted of every table that is maintained."""
    return tuple(conn.cursor(row_factory=class_row(Noted)).execute(_QUERIES["newest_of_all"]))


def write_stats(conn: Connection, owner: Owner, new: NewStats, seen: StatsRow | None) -> None:
    """A new version is a new row; else the newest row is brought up to date."""
    values = {
        **owner.values(),
        "metadata_location": new.metadata_location,
        "stats": Jsonb(dict(new.stats)),
        "warnings": Jsonb([dict(kept) for kept in new.warnings.values()]),
        "policy": Jsonb(dict(new.policy)),
        "problem": new.problem,
    }
    if seen is not None and seen.metadata_location == new.metadata_location:
        conn.execute(_QUERIES["refresh"], {**values, "id": seen.id})
        return
    conn.execute(_QUERIES["insert"], values)
    conn.execute(_QUERIES["prune"], owner.values())


def read_trend(conn: Connection, owner: Owner) -> tuple[float, float]:
    """Small files created and removed per hour, over the last day."""
    row = rows_by_name(conn).execute(_QUERIES["trend"], owner.values()).fetchone()
    assert row is not None
    hours = row.seconds / 3600 if row.seconds else 1.0
    return round(row.created / hours, 2), round(row.removed / hours, 2)


def read_orphan_estimate(conn: Connection, owner: Owner) -> int:
    estimate = conn.cursor(row_factory=scalar_row).execute(_QUERIES["orphan_estimate"], owner.values()).fetchone()
    return int(estimate or 0)


def read_published(conn: Connection, table_id: int) -> int | None:
    cursor = conn.cursor(row_factory=scalar_row)
    snapshot: int | None = cursor.execute(_QUERIES["published"], {"table_id": table_id}).fetchone()
    return snapshot
