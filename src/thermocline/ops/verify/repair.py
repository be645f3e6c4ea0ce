"""Repair: where the heap still holds a range, it is the truth, and what the lake shows otherwise becomes corrections;
so do rows that the heap has of other ranges, in the spill or a partition, and that readers do not see.

Only the rows that differ are written, to the delta, in one transaction: readers see them right from its commit on, and
the next fold carries them into the lake. A range whose only copy is the lake has nothing to be repaired from, and is
refused.

Rows that the heap lacks are deleted from the lake only where they are proved to have been deleted: the heap holds the
range whole, unbroken since its seal (`thermocline.partitions_in_heap`). Where a partition was dropped, detached,
emptied or made anew, the lake may have the only copy: those rows stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from thermocline.catalog import journal, tables
from thermocline.core.names import TableName
from thermocline.core.verification import SPILL_ABOVE_CUTLINE, CheckedRange, VerifyReport
from thermocline.errors import NothingToRepairFrom
from thermocline.ops.spanning_table import SpanningTable, read_spanning
from thermocline.ops.unjournaled_commits import check_lakes_match_journal
from thermocline.ops.verify.verify_table import read_ranges
from thermocline.runtime.pg import Connection, connect, table_identifier
from thermocline.runtime.retries import retry_on
from thermocline.runtime.settings import Settings
from thermocline.seam.heap.partitions import short_locks
from thermocline.seam.render import Templates, key_between
from thermocline.seam.spill import apply_missing_corrections

_QUERIES = Templates.load("repair.sql", "thermocline.ops")
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """Which ranges were repaired, by how many corrections."""

    table: str
    ranges: tuple[str, ...]
    rows: int
    unproved: int = 0

    @property
    def sentence(self) -> str:
        if not self.ranges:
            return f"{self.table}: nothing differs, nothing was repaired."
        repaired = (
            f"{self.table}: {self.rows:,} corrections repair {', '.join(self.ranges)}; the next fold carries them "
            "into the lake."
        )
        if not self.unproved:
            return repaired
        return (
            f"{repaired} {self.unproved:,} rows that the heap lacks stay in the lake: their partition was "
            "dropped, detached or made anew, and"
            " nothing proves that they were deleted. Delete them through the seam if they were, or attach "
            "the partition again."
        )


def check_repairable(report: VerifyReport) -> tuple[str, ...]:
    """The ranges to repair; refuses what cannot be repaired from the heap."""
    failed = [verdict for verdict in report.ranges if verdict.problem]
    if report.problems:
        raise NothingToRepairFrom(f"{report.table} cannot be repaired from its heap: {report.problems[0]}.")
    if lost := [verdict.range for verdict in failed if verdict.yardstick != "heap"]:
        raise NothingToRepairFrom(f"{lost[0]} of {report.table} differs, and the heap does not hold it any more.")
    return tuple(verdict.range for verdict in failed)


def repair(dsn: str, name: TableName, ranges: Sequence[str], settings: Settings) -> RepairReport:
    """Write the corrections that make these ranges read as the heap has them."""
    with connect(dsn, autocommit=True, application_name="thermocline repair") as conn:
        table = read_spanning(conn, name)
        rows = unproved = 0
        check_lakes_match_journal(conn)
        with journal.table_lock(conn, table.registered.id, str(name)):
            for range_name in ranges:
                done, left = _repair_range(conn, table, range_name, settings.lock_timeout_ms)
                rows, unproved = rows + done, unproved + left
        report = RepairReport(table=str(name), ranges=tuple(ranges), rows=rows, unproved=unproved)
        tables.insert_event(conn, table.registered.id, "repair", report.sentence)
    return report


def _repair_range(conn: Connection, table: SpanningTable, range_name: str, lock_timeout_ms: int) -> tuple[int, int]:
    """How many rows of a range were corrected, and how many that the heap lacks were left, for nothing proves that they
    were deleted.

    At one snapshot; a row that a writer changed meanwhile has a newer correction, so Postgres refuses ours and all of
    it runs again. The heap and its partitions are held before the snapshot is taken: one that left or was truncated
    later would look as if all of its rows had been deleted.
    """
    for attempt in retry_on(psycopg.errors.SerializationFailure, attempts=_ATTEMPTS):
        with attempt, short_locks(conn, lock_timeout_ms, [table.heap.oid], f"read {table.name}"):
            conn.execute("set transaction isolation level repeatable read")
            conn.execute(sql.SQL("lock table {} in access share mode").format(table_identifier(table.name)))
            conn.execute("select set_config('search_path', 'pg_catalog', true)")
            cut = journal.read_cutline(conn, table.registered.id)
            if range_name == SPILL_ABOVE_CUTLINE:
                return apply_missing_corrections(conn, table.seam, cut.t), 0
            part = next((part for part in read_ranges(conn, table, cut) if part.name == range_name), None)
            if part is None:
                return 0, 0
            corrected = conn.execute(_statement("upsert", table, part, cut.r)).rowcount
            if part.proves_deletes:
                return corrected + conn.execute(_statement("tombstone", table, part)).rowcount, 0
            if not part.in_heap and not part.is_doubted:
                return corrected, 0
            lacking = conn.execute(_statement("lacking", table, part)).fetchone()
            return corrected, int(lacking[0]) if lacking else 0
    raise AssertionError("unreachable")


def _statement(name: str, table: SpanningTable, part: CheckedRange, line: int | None = None) -> sql.Composed:
    """The statement over one range; of the heap's rows those at or above the retention line, for what is below stays
    expired."""
    lo = part.lo if line is None else max(part.lo, line)
    limits = {
        "h_within": key_between(table.seam, lo, part.hi, "h"),
        "s_within": key_between(table.seam, part.lo, part.hi, "s"),
    }
    return _QUERIES.render(name, table.seam, **limits)
