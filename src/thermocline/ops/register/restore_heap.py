"""Bringing history back into the heap, ahead of an unregistration.

fill a table per range from what readers see (one transaction each, checked against the lake's files) → in the
transaction that unregisters: attach them as partitions, apply the corrections that came meanwhile. A range that was
filled before a crash is used again when nothing was published since: then all that it lacks waits in the delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from psycopg import sql

from thermocline.catalog import journal
from thermocline.core.axis import render_axis
from thermocline.core.names import TableName
from thermocline.core.plan.restore import RestoreRange, plan_restore
from thermocline.errors import ChecksumMismatch, SpillNotCaptured, WrittenDuringRestore
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.ops.data_files import list_files
from thermocline.ops.spanning_table import SpanningTable
from thermocline.parquet.deletes.position_deletes import PositionDeleteCache
from thermocline.parquet.values.row_checksum import sum_hashes
from thermocline.runtime.fault_points import fault_point
from thermocline.runtime.pg import Connection
from thermocline.runtime.progress import Meter, ProgressReporter
from thermocline.seam.heap import restore_rows as heap_side
from thermocline.seam.heap.facts import read_partitions
from thermocline.seam.heap.partitions import apply_discovery
from thermocline.seam.heap.restore_rows import FilledRange
from thermocline.seam.render import key_between
from thermocline.seam.spill import count_unaccounted
from thermocline.spark.kernels.verify_query import plan_hash_query
from thermocline.spark.kernels.verify_rows import LakeShape, read_file_rows

_BATCH_ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredHistory:
    """History that is ready to be attached: each range with the table it was filled into, and the gaps that had no
    rows."""

    table: SpanningTable
    filled: tuple[tuple[RestoreRange, FilledRange], ...]
    empty: tuple[RestoreRange, ...]

    @property
    def rows(self) -> int:
        return sum(filled.rows for _, filled in self.filled)

    @property
    def planned(self) -> tuple[RestoreRange, ...]:
        return tuple(sorted((*(part for part, _ in self.filled), *self.empty), key=lambda part: part.lo))


def plan_history(conn: Connection, table: SpanningTable) -> tuple[RestoreRange, ...]:
    """Every range below T that the heap does not hold whole now."""
    registered = table.registered
    apply_discovery(conn, registered.id, read_partitions(conn, table.heap, registered.key_type))
    cut = journal.read_cutline(conn, registered.id)
    return (
        ()
        if cut.s is None
        else plan_restore(registered.name, heap_side.read_history_partitions(conn, registered.id, cut.t), cut.t)
    )


def count_lacking(conn: Connection, table: SpanningTable, planned: Sequence[RestoreRange]) -> int:
    """How many rows of these ranges readers see and the heap does not have."""
    return sum(heap_side.count_lacking(conn, table.seam, part) for part in planned)


def fill_history(conn: Connection, table: SpanningTable, report_progress: ProgressReporter) -> RestoredHistory:
    """Fill every range below T that the heap does not hold whole, under the table's lock."""
    registered, seam = table.registered, table.seam
    planned = plan_history(conn, table)
    usable = {}
    for found in heap_side.read_filled(conn, registered.id):
        if found.is_current and any((part.lo, part.hi) == (found.lo, found.hi) for part in planned):
            usable[found.lo] = found
        else:
            heap_side.drop_filled(conn, registered.id, found)
    filled: list[tuple[RestoreRange, FilledRange]] = []
    empty: list[RestoreRange] = []
    meter = Meter(report_progress, f"restoring {registered.name}", len(planned), "ranges")
    for part in planned:
        meter.note(len(filled) + len(empty))
        if part.is_gap and part.lo not in usable and not heap_side.has_rows(conn, seam, part):
            empty.append(part)
            continue
        if part.lo not in usable:
            usable[part.lo] = _fill(conn, table, part)
            report_progress(f"brought {usable[part.lo].rows:,} rows of {_render(table, part)} back")
            fault_point("restore-filled")
        filled.append((part, usable[part.lo]))
    meter.note(len(planned))
    return RestoredHistory(table=table, filled=tuple(filled), empty=tuple(empty))


def _fill(conn: Connection, table: SpanningTable, part: RestoreRange) -> FilledRange:
    with conn.transaction():
        # One point in time for the seam, the delta and the files it is checked against.
        conn.execute("set transaction isolation level repeatable read")
        cut = journal.read_cutline(conn, table.registered.id)
        assert cut.s is not None
        filled = heap_side.fill(conn, table.seam, part, cut.s)
        _check(conn, table, part, filled, cut.s)
        return filled


def _check(conn: Connection, table: SpanningTable, part: RestoreRange, filled: FilledRange, snapshot: int) -> None:
    """What was filled, value by value, against the lake's files and the corrections of the range."""
    registered, seam = table.registered, table.seam
    shape = LakeShape(columns=registered.columns, key=registered.pk, tier_key=registered.tier_key)
    pending = sql.SQL("x._folded is null and {}").format(key_between(seam, part.lo, part.hi, "x"))
    corrected = _read_hashes(conn, seam.objects.delta, shape, pending)[:, 1]
    upserts = _read_hashes(conn, seam.objects.delta, shape, sql.SQL("x._op = 0 and {}").format(pending))[:, 0]
    held = sum_hashes(upserts.copy())
    tier_key_id = next(column.field_id for column in registered.columns if column.name == registered.tier_key)
    metadata = lake_catalog().read_metadata_location(conn, registered.lake)
    assert metadata is not None
    delete_cache = PositionDeleteCache()
    for file in list_files(metadata, snapshot, registered.name, tier_key_id):
        if file.lower_key < part.hi and file.upper_key >= part.lo:
            rows = read_file_rows(file.path, shape, file.deletes, delete_cache)
            live = (
                (rows.tier_keys >= part.lo) & (rows.tier_keys < part.hi) & ~np.isin(rows.ids, corrected.view(np.uint64))
            )
            held += sum_hashes(rows.rows[live])
    found = sum_hashes(_read_hashes(conn, filled.table, shape, sql.SQL("true"))[:, 0].copy())
    if found != held:
        raise ChecksumMismatch(
            f"{_render(table, part)}: {found.rows:,} rows were brought back, the lake and the delta hold {held.rows:,},"
            " and their checksums differ; nothing was changed."
        )


def _read_hashes(
    conn: Connection, relation: TableName, shape: LakeShape, condition: sql.Composable
) -> npt.NDArray[np.int64]:
    """Two columns: the hash of each row and of its key."""
    pieces = [np.zeros((0, 2), dtype=np.int64)]
    with conn.cursor(name="restore", binary=True) as cursor:
        cursor.execute(plan_hash_query(relation, shape.columns, shape.key_columns, condition))
        while batch := cursor.fetchmany(_BATCH_ROWS):
            pieces.append(np.array(batch, dtype=np.int64))
    return np.asfortranarray(np.concatenate(pieces))


def note_restored(conn: Connection, restored: RestoredHistory) -> None:
    """Ahead of forgetting the table, in that transaction: hold what waits in the delta, and write down what the heap
    has whole.

    Corrections of ranges that the heap holds whole came from the heap: only the others are held. A partition that was
    truncated or left the table since the ranges were planned is not whole any more.
    """
    if plan_history(conn, restored.table) != restored.planned:
        raise WrittenDuringRestore(
            f"Partitions of {restored.table.name} were changed by hand while history was brought back."
        )
    heap_side.hold_pending(conn, restored.table.seam, restored.planned)
    for gap in restored.empty:
        if heap_side.has_pending(conn, restored.table.seam, gap):
            raise WrittenDuringRestore(
                f"{_render(restored.table, gap)} had no rows, and got some while history was brought back."
            )
    _check_spill(conn, restored)
    for part, filled in restored.filled:
        heap_side.note_partition(conn, restored.table.seam, part, filled)


def _check_spill(conn: Connection, restored: RestoredHistory) -> None:
    """Refuse to drop rows with the spill that readers do not see: written while its capture was off, they are nowhere
    else."""
    table, line = restored.table, journal.read_cutline(conn, restored.table.registered.id).r
    lost = 0
    for part, filled in (
        *((part, filled.table) for part, filled in restored.filled),
        *((gap, None) for gap in restored.empty),
    ):
        low = part.lo if line is None else max(part.lo, line)
        if part.into is None and low < part.hi:
            lost += count_unaccounted(conn, table.seam, key_between(table.seam, low, part.hi, "h"), filled)
    if lost:
        raise SpillNotCaptured(
            f"{lost:,} rows in the spill of {table.name} were not captured, and readers do not see them.",
        )


def attach_restored(conn: Connection, restored: RestoredHistory) -> tuple[TableName, ...]:
    """Once the spill is gone: attach what was filled, apply the corrections. The partitions that were made or
    filled."""
    seam = restored.table.seam
    names = [heap_side.attach(conn, seam, part, filled) for part, filled in restored.filled]
    heap_side.apply_pending(conn, seam)
    return tuple(names)


def drop_all_filled(conn: Connection, table_id: int) -> None:
    """What an earlier attempt brought back goes with a registration whose heap is not restored."""
    for filled in heap_side.read_filled(conn, table_id):
        heap_side.drop_filled(conn, table_id, filled)


def _render(table: SpanningTable, part: RestoreRange) -> str:
    kind = table.registered.key_type
    return f"{table.name} from {render_axis(kind, part.lo)} to {render_axis(kind, part.hi)}"
