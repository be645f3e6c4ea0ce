"""DuckDB, the gateway's executor: one database, a connection per running statement, rows streamed as Arrow batches."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import duckdb

from thermocline.errors import LakeFileUnreadable, UnknownSnapshot
from thermocline.gateway import metrics
from thermocline.gateway.lake_arm.duckdb_batches import (
    MAX_BATCH_ROWS,
    DuckDbBatches,
    DuckDbRows,
    LimitedBatches,
    translate_duckdb_error,
)
from thermocline.gateway.lake_arm.duckdb_object_store import configure_object_store
from thermocline.gateway.lake_arm.memory_limits import ConnectionMemory, DatabaseFactory, MemoryLimits
from thermocline.gateway.lake_arm.row_sources import ConstantRows, RowSource
from thermocline.gateway.lake_arm.scan_sql import render_scan
from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.fragments import Fragment, join_fragments
from thermocline.gateway.sql.pushdown.select import LakeQuery
from thermocline.gateway.sql.table_scan import TableScan
from thermocline.lake.read.scan import ScanPlan, plan_scan, thin_scan
from thermocline.lake.read.storage import readable_path
from thermocline.runtime.object_store import ObjectStore, current_store, is_object_location

_FEWEST_BATCH_ROWS = 2_048
_BATCH_BYTES = 64 << 20
_SAMPLED_FROM = 20
_SHORT_TOP_ROWS = 10_000
_LITTLE_BYTES = 32 << 20

_MAX_VERIFIED_FILES = 200_000


class DuckDbEngine:
    """Runs scans."""

    def __init__(self, *, threads: int, memory: MemoryLimits, at_once: int = 16) -> None:
        self.turns = threading.BoundedSemaphore(at_once)
        self.ahead = ThreadPoolExecutor(at_once, thread_name_prefix="gateway-ahead")
        self._databases = DatabaseFactory(memory, threads=threads)
        self._root = self._databases.open(memory.whole_bytes)
        # DuckDB looks for pandas at its first parameter, which takes seconds: now, not in somebody's first statement.
        self._root.execute("SELECT ?, ?", [1, ["x"]]).to_arrow_reader(1).read_all()
        self._lock = threading.Lock()
        self._verified: set[str] = set()
        self._store: ObjectStore | None = None

    def close(self) -> None:
        self.ahead.shutdown(wait=True, cancel_futures=True)
        self._root.close()
        self._databases.close()

    def connection_memory(self) -> ConnectionMemory:
        """What one more connection may hold."""
        return ConnectionMemory(self._databases, self._prepare)

    def _prepare(self, database: duckdb.DuckDBPyConnection) -> None:
        if self._store is not None:
            configure_object_store(database, self._store)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return self._root.cursor()

    def plan(self, scan: TableScan) -> ScanPlan | None:
        """The files to read, or `None` when nothing can match."""
        if scan.snapshot_id is None:
            return None
        if not scan.mapped_table.lake_table.has_snapshot(scan.snapshot_id):
            raise UnknownSnapshot(f"The lake table of {scan.mapped_table.name} has no snapshot {scan.snapshot_id}.")
        plan = plan_scan(scan.mapped_table.lake_table, scan.snapshot_id, scan.bounds)
        if scan.sampled_rows is not None:
            plan = thin_scan(plan, _SAMPLED_FROM * scan.sampled_rows, random.random())
        metrics.FILES_SCANNED.inc(len(plan.data))
        metrics.FILES_SKIPPED.inc(plan.files_skipped)
        metrics.BYTES_SKIPPED.inc(plan.bytes_skipped)
        metrics.BYTES_READ.inc(sum(file.size_bytes for file in plan.data))
        return plan if plan.data else None

    def open(self, query: LakeQuery, memory: ConnectionMemory | None = None) -> RowSource:
        """The answer of a statement, not yet begun; a provably empty one never reaches DuckDB."""
        fields = tuple(output.field for output in query.outputs)
        plan = self.plan(query.scan)
        if plan is None or query.limit == 0:
            rows = [[output.when_empty for output in query.outputs]] if query.is_aggregate else []
            return ConstantRows(fields, rows)
        outputs = _listed(tuple(output.fragment for output in query.outputs))
        tail = []
        if query.order:
            tail.append(Fragment("ORDER BY " + ", ".join(query.order)))
        if query.limit is not None:
            tail.append(Fragment("LIMIT CAST(? AS BIGINT)", (query.limit,)))
        if query.offset:
            tail.append(Fragment("OFFSET CAST(? AS BIGINT)", (query.offset,)))
        statement = self._statement(outputs, plan, query.scan, tail)
        if memory is not None and _holds_much(query, plan):
            return DuckDbRows(fields, LimitedBatches(memory, statement, self.turns, batch_rows(plan)))
        return DuckDbRows(fields, DuckDbBatches(self.cursor(), statement, self.turns, batch_rows(plan)))

    def open_columns(self, scan: TableScan, columns: tuple[MappedColumn, ...]) -> DuckDbBatches | None:
        """Whole columns of a scan's candidate rows, or `None` when there are none."""
        plan = self.plan(scan)
        if plan is None:
            return None
        outputs = _listed(tuple(Fragment(column.sql) for column in columns) or (Fragment("NULL"),))
        return DuckDbBatches(self.cursor(), self._statement(outputs, plan, scan, []), self.turns, batch_rows(plan))

    def _statement(self, outputs: Fragment, plan: ScanPlan, scan: TableScan, tail: list[Fragment]) -> Fragment:
        parts = [Fragment("SELECT"), outputs, Fragment("FROM"), self.source(plan, scan)]
        condition = scan.condition
        if scan.sampled_rows is not None:
            condition = (*condition, Fragment("random() < CAST(? AS DOUBLE)", (scan.sampled_rows / plan.row_count,)))
        if condition:
            parts += [Fragment("WHERE"), join_fragments(" AND ", condition)]
        parts += tail
        return Fragment(
            " ".join(part.text for part in parts), tuple(value for part in parts for value in part.parameters)
        )

    def source(self, plan: ScanPlan, scan: TableScan) -> Fragment:
        """The rows of a plan, as they stand after FROM."""
        files = [*plan.data, *(delete for delete in plan.deletes if delete.equality_ids)]
        paths = [readable_path(file.path) for file in files]
        self._connect_store(paths)
        self._check_field_ids(paths)
        return render_scan(plan, tuple(scan.mapped_table.columns.values()))

    def _connect_store(self, paths: list[str]) -> None:
        """Reaches the object store when the first of its files is read, and again when its keys changed."""
        if not any(map(is_object_location, paths)) or self._store == (store := current_store()):
            return
        with self._lock:
            configure_object_store(self._root, store)
            self._store = store

    def _check_field_ids(self, paths: list[str]) -> None:
        """A file without field ids would read as nulls under Iceberg's rules, so it is refused by name."""
        fresh = [path for path in paths if path not in self._verified]
        if not fresh:
            return
        cursor = self.cursor()
        try:
            query = "SELECT file_name FROM parquet_schema(?) WHERE num_children IS NULL AND field_id IS NULL LIMIT 1"
            bad = cursor.execute(query, [fresh]).fetchone()
        except duckdb.Error as problem:
            raise translate_duckdb_error(problem) from problem
        finally:
            cursor.close()
        if bad:
            raise LakeFileUnreadable(f"Lake file {bad[0]} carries no Iceberg field ids.")
        if len(self._verified) > _MAX_VERIFIED_FILES:
            self._verified.clear()
        self._verified.update(fresh)


def _listed(fragments: tuple[Fragment, ...]) -> Fragment:
    texts = [f"{fragment.text} AS o{number}" for number, fragment in enumerate(fragments)]
    return Fragment(", ".join(texts), tuple(value for fragment in fragments for value in fragment.parameters))


def _holds_much(query: LakeQuery, plan: ScanPlan) -> bool:
    """Whether DuckDB must keep more than a little before the first row leaves: a sort that is no short top, or many row
    deletes."""
    is_sort = bool(query.order) and not (query.limit is not None and query.limit + query.offset <= _SHORT_TOP_ROWS)
    sorted_bytes = max(plan.row_count * 32, sum(file.size_bytes for file in plan.data)) if is_sort else 0
    deleted_bytes = sum(delete.record_count for delete in plan.deletes) * 64
    return sorted_bytes + deleted_bytes > _LITTLE_BYTES


def batch_rows(plan: ScanPlan) -> int:
    """Rows per batch: fewer where rows are wide, so that a batch stays near a bounded size."""
    size = sum(file.size_bytes for file in plan.data)
    wide = max(1, 4 * size // max(1, plan.row_count))
    return max(_FEWEST_BATCH_ROWS, min(MAX_BATCH_ROWS, _BATCH_BYTES // wide))
