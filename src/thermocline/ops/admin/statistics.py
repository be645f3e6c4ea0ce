"""What Postgres' planner knows of the lake: the foreign table is analysed when the published rows differ from those it
counted.

A look costs a query; manifests are read only when the snapshot is another one. ANALYZE reads a sample by the gateway
(`postgres_fdw` of Postgres 16 and newer), of files evenly spread over the lake, so it stays cheap however large the
lake is.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from thermocline.catalog.tables import RegisteredTable
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.runtime.pg import Connection, load_queries, rows_by_name
from thermocline.runtime.settings import Settings

CHANGED_SHARE = 0.1
WHOLE_SCAN_ROWS = 5_000_000
_SAMPLING_VERSION = 160_000
_QUERIES = load_queries("thermocline.ops", "queries/statistics.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeStatistics:
    """Rows that are published, and `known_rows`, the planner's estimate; None before the first ANALYZE."""

    snapshot: int | None
    rows: int
    known_rows: float | None
    server_version: int


def read_statistics(conn: Connection, table: RegisteredTable) -> LakeStatistics | None:
    """The lake's rows and the planner's; None while the table has no lake or no foreign table."""
    found = rows_by_name(conn).execute(_QUERIES["lake_statistics"], [table.id]).fetchone()
    location = lake_catalog().read_metadata_location(conn, table.lake)
    if found is None or location is None:
        return None
    rows = 0
    if found.snapshot is not None:
        files = read_lake_table(location).files(found.snapshot)
        deleted = sum(delete.record_count for delete in files.deletes if not delete.equality_ids)
        rows = max(0, sum(file.record_count for file in files.data) - deleted)
    return LakeStatistics(
        snapshot=found.snapshot,
        rows=rows,
        known_rows=found.known_rows if found.known_rows >= 0 else None,
        server_version=found.server_version,
    )


def why_not_analyze(seen: LakeStatistics) -> str | None:
    """A reason to leave the statistics as they are."""
    if seen.snapshot is None:
        return "nothing is published yet"
    if seen.known_rows is not None and abs(seen.rows - seen.known_rows) <= CHANGED_SHARE * max(
        seen.rows, seen.known_rows
    ):
        return "the planner's count is within a tenth"
    if seen.server_version < _SAMPLING_VERSION and seen.rows > WHOLE_SCAN_ROWS:
        return "postgres_fdw of this Postgres would read the whole lake for it"
    return None


def refresh_statistics(conn: Connection, table: RegisteredTable, settings: Settings) -> LakeStatistics | None:
    """Analyse the lake's foreign table when it is due; what was seen when it was. Waits for no lock longer than others
    may."""
    seen = read_statistics(conn, table)
    if seen is None or why_not_analyze(seen) is not None:
        return None
    conn.execute("select set_config('lock_timeout', %s, false)", [f"{settings.lock_timeout_ms}ms"])
    try:
        conn.execute(sql.SQL("analyze {}").format(sql.Identifier("thermocline_lake", table.object_name)))
    except psycopg.errors.LockNotAvailable:
        return None
    finally:
        if not conn.broken:
            conn.execute("reset lock_timeout")
    return seen
