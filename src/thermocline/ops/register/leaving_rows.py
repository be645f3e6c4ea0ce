"""How many rows of a table only the lake holds: those that leave the table when it is unregistered."""

from __future__ import annotations

from dataclasses import dataclass

from thermocline.catalog import journal
from thermocline.catalog.tables import RegisteredTable
from thermocline.errors import ThermoclineError
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.read.table_metadata import read_lake_table
from thermocline.runtime.pg import Connection, load_queries

_QUERIES = load_queries("thermocline.ops", "queries/unregister.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingRows:
    """Rows of the published snapshot, and those of them that the heap does not hold."""

    in_lake: int
    leaving: int


def count_leaving(conn: Connection, table: RegisteredTable) -> LeavingRows | None:
    """By the snapshot's own summary and the counts of partitions that the heap still has; None where there is no lake
    or its metadata cannot be read, which keeps nobody from leaving."""
    cut = journal.read_cutline(conn, table.id)
    location = lake_catalog().read_metadata_location(conn, table.lake)
    if cut.s is None or location is None:
        return None
    try:
        snapshot = read_lake_table(location).metadata.snapshot_by_id(cut.s)
    except (ThermoclineError, OSError):
        return None
    if snapshot is None or snapshot.summary is None:
        return None
    summary = snapshot.summary.additional_properties
    total = int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))
    row = conn.execute(_QUERIES["counted_rows"], {"table_id": table.id}).fetchone()
    assert row is not None
    whole, dropped = int(row[0]), int(row[1])
    # Above T an adopted lake may hold rows of partitions that the heap has: those that were dropped are what it lacks.
    is_adopting = table.lake_until is not None and cut.t < table.lake_until
    leaving = dropped if is_adopting else total - whole
    return LeavingRows(in_lake=total, leaving=min(max(leaving, 0), total))
