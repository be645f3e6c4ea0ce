"""DuckDB, the gateway's executor: one database, a connection per running statement, rows streamed as Arrow batches."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa

from thermocline.errors import LakeFileUnreadable, StatementTooLarge, UnknownSnapshot
from thermocline.gateway import metrics
from thermocline.gateway.lake_arm.column_facts import ColumnFacts
from thermocline.gateway.lake_arm.duckdb_object_store import connect_store
from thermocline.gateway.lake_arm.invalid_utf8 import bad_text
from thermocline.gateway.lake_arm.memory_limits import ConnectionMemory, Databases, MemoryLimits
from thermocline.gateway.lake_arm.row_sources import Cancelled, ConstantRows, RowSource
from thermocline.gateway.lake_arm.scan_sql import source_of
from thermocline.gateway.sql.pushdown.predicates import Fragment, Parameter, join
from thermocline.gateway.sql.pushdown.select import LakeQuery, TableScan
from thermocline.gateway.wire.messages import Field
from thermocline.gateway.wire.row_encoding import EncodedRows, Shape, encode_rows
from thermocline.lake.read.scan import ScanPlan, plan_scan, thin_scan
from thermocline.lake.read.storage import readable_path
from thermocline.runtime.object_store import ObjectStore, current_store, is_object_location

_BATCH_ROWS, _FEWEST_BATCH_ROWS = 32_768, 2_048
_BATCH_BYTES = 64 << 20
_SAMPLED_FROM = 20
_SHORT_TOP_ROWS = 10_000
_LITTLE_BYTES = 32 << 20
_TURN_SECONDS = 0.2

_MAX_VERIFIED_FILES = 200_000


class LakeEngine:
    """Runs scans."""

    def __init__(self, *, threads: int, memory: MemoryLimits, at_once: int = 16) -> None:
        self.turns = threading.BoundedSemaphore(at_once)
        self.ahead = ThreadPoolExecutor(at_once, thread_name_prefix="gateway-ahead")
        self._databases = Databases(memory, threads=threads)
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
            connect_store(database, self._store)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return self._root.cursor()

    def plan(self, scan: TableScan) -> ScanPlan | None:
        """The files to read, or `None` when nothing can match."""
        if scan.snapshot_id is None:
            return None
        if not scan.facts.table.has_snapshot(scan.snapshot_id):
            raise UnknownSnapshot(f"The lake table of {scan.facts.name} has no snapshot {scan.snapshot_id}.")
        plan = plan_scan(scan.facts.table, scan.snapshot_id, scan.bounds)
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
            return DuckRows(fields, HeldBatches(memory, statement, self.turns, batch_rows(plan)))
        return DuckRows(fields, DuckBatches(self.cursor(), statement, self.turns, batch_rows(plan)))

    def open_columns(self, scan: TableScan, columns: tuple[ColumnFacts, ...]) -> DuckBatches | None:
        """Whole columns of a scan's candidate rows, or `None` when there are none."""
        plan = self.plan(scan)
        if plan is None:
            return None
        outputs = _listed(tuple(Fragment(column.sql) for column in columns) or (Fragment("NULL"),))
        return DuckBatches(self.cursor(), self._statement(outputs, plan, scan, []), self.turns, batch_rows(plan))

    def _statement(self, outputs: Fragment, plan: ScanPlan, scan: TableScan, tail: list[Fragment]) -> Fragment:
        parts = [Fragment("SELECT"), outputs, Fragment("FROM"), self.source(plan, scan)]
        condition = scan.condition
        if scan.sampled_rows is not None:
            condition = (*condition, Fragment("random() < CAST(? AS DOUBLE)", (scan.sampled_rows / plan.row_count,)))
        if condition:
            parts += [Fragment("WHERE"), join(" AND ", condition)]
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
        return source_of(plan, tuple(scan.facts.columns.values()))

    def _connect_store(self, paths: list[str]) -> None:
        """Reaches the object store when the first of its files is read, and again when its keys changed."""
        if not any(map(is_object_location, paths)) or self._store == (store := current_store()):
            return
        with self._lock:
            connect_store(self._root, store)
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
            raise _translated(problem) from problem
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
    return max(_FEWEST_BATCH_ROWS, min(_BATCH_ROWS, _BATCH_BYTES // wide))


class DuckBatches:
    """Arrow batches of one DuckDB statement; so many statements compute at once, others wait for their turn."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection | None,
        statement: Fragment,
        turns: threading.BoundedSemaphore,
        rows: int = _BATCH_ROWS,
    ) -> None:
        self._turns = turns
        self._cursor = cursor
        self._statement = statement
        self._rows = rows
        self._reader: pa.RecordBatchReader | None = None
        self._stopped = False

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch with rows in it."""
        cursor = self._opened()
        while not self._turns.acquire(timeout=_TURN_SECONDS):
            if self._stopped:
                raise Cancelled
        try:
            return self._computed(cursor)
        finally:
            self._turns.release()

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._cursor is None:
            raise Cancelled
        return self._cursor

    def _computed(self, cursor: duckdb.DuckDBPyConnection) -> pa.RecordBatch | None:
        try:
            if self._stopped:
                raise Cancelled
            if self._reader is None:
                values: list[Parameter] = list(self._statement.parameters)
                self._reader = cursor.execute(self._statement.text, values).to_arrow_reader(self._rows)
            for batch in self._reader:
                if batch.num_rows:
                    return batch
            return None
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            raise self._problem(problem) from problem

    def _problem(self, problem: BaseException) -> Exception:
        return _translated(problem)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def interrupt(self) -> None:
        self._stopped = True
        if self._cursor is not None:
            self._cursor.interrupt()

    def close(self) -> None:
        self._reader = None
        if self._cursor is not None:
            self._cursor.close()


class HeldBatches(DuckBatches):
    """Batches of a statement that holds rows, under its connection's own limit."""

    def __init__(
        self, memory: ConnectionMemory, statement: Fragment, turns: threading.BoundedSemaphore, rows: int
    ) -> None:
        super().__init__(None, statement, turns, rows)
        self._memory = memory
        self._closed = False

    def _opened(self) -> duckdb.DuckDBPyConnection:
        if self._closed:
            raise Cancelled
        if self._cursor is None:
            self._cursor = self._memory.take(lambda: self._stopped)
        return self._cursor

    def _problem(self, problem: BaseException) -> Exception:
        told = _translated(problem)
        if not isinstance(told, MemoryError):
            return told
        limit = self._memory.limit_bytes // 1_000_000
        return StatementTooLarge(f"The statement needs more than the {limit} MB of memory that one connection may use.")

    def close(self) -> None:
        cursor, self._cursor, self._reader, self._closed = self._cursor, None, None, True
        if cursor is not None:
            self._memory.give_back(cursor)


class DuckRows:
    """A DuckDB statement as a row source."""

    def __init__(self, fields: tuple[Field, ...], batches: DuckBatches) -> None:
        self._fields = fields
        self._batches = batches

    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def next_rows(self, shape: Shape) -> EncodedRows | None:
        batch = self._batches.next_batch()
        return None if batch is None else encode_rows(batch, shape, [field.type_oid for field in self._fields])

    def interrupt(self) -> None:
        self._batches.interrupt()

    def close(self) -> None:
        self._batches.close()


def _translated(problem: BaseException) -> Exception:
    """DuckDB's error as one of ours; its text may quote data, so only the first line is kept."""
    text = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
    if isinstance(problem, duckdb.InterruptException) or "INTERRUPT" in text:
        return Cancelled()
    if isinstance(problem, duckdb.OutOfMemoryException) or "Out of Memory" in text:
        return MemoryError(text)
    if (told := bad_text(text)) is not None:
        return told
    return LakeFileUnreadable(f"The lake cannot be read: {text}")
