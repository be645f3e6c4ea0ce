"""DuckDB, the gateway's executor: one database, a connection per running statement, rows streamed as Arrow batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from thermocline.cold.scan import ScanPlan, plan_scan
from thermocline.cold.storage import readable_path
from thermocline.errors import LakeFileUnreadable, UnknownSnapshot
from thermocline.gateway import metrics
from thermocline.gateway.facts import ColumnFacts
from thermocline.gateway.predicates import Fragment, Parameter, join
from thermocline.gateway.pushdown import LakeQuery, TableScan
from thermocline.gateway.remote import connect_store
from thermocline.gateway.rows import EncodedRows, Shape, encode_rows
from thermocline.gateway.sources import Cancelled, ConstantRows, RowSource
from thermocline.gateway.sourcing import source_of
from thermocline.gateway.wire.messages import Field
from thermocline.object_store import ObjectStore, current_store, is_object_location

_BATCH_ROWS = 32_768
_TURN_SECONDS = 0.2

_MAX_VERIFIED_FILES = 200_000


class LakeEngine:
    """Runs scans."""

    def __init__(self, *, threads: int, memory_limit_bytes: int, at_once: int = 16) -> None:
        self.turns = threading.BoundedSemaphore(at_once)
        self._root = duckdb.connect(
            ":memory:",
            config={
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
                "threads": str(threads),
                "memory_limit": f"{memory_limit_bytes // 1_000_000}MB",
                "preserve_insertion_order": "false",
            },
        )
        self._root.execute("SET GLOBAL TimeZone = 'UTC'")
        self._root.execute("SET GLOBAL parquet_metadata_cache = true")
        # DuckDB looks for pandas at its first parameter, which takes seconds: now, not in somebody's first statement.
        self._root.execute("SELECT ?, ?", [1, ["x"]]).to_arrow_reader(1).read_all()
        self._lock = threading.Lock()
        self._verified: set[str] = set()
        self._store: ObjectStore | None = None

    def close(self) -> None:
        self._root.close()

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
        metrics.FILES_SCANNED.inc(len(plan.data))
        metrics.FILES_SKIPPED.inc(plan.files_skipped)
        metrics.BYTES_READ.inc(sum(file.size_bytes for file in plan.data))
        return plan if plan.data else None

    def open(self, query: LakeQuery) -> RowSource:
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
        return DuckRows(self, fields, self._statement(outputs, plan, query.scan, tail))

    def open_columns(self, scan: TableScan, columns: tuple[ColumnFacts, ...]) -> DuckBatches | None:
        """Whole columns of a scan's candidate rows, or `None` when there are none."""
        plan = self.plan(scan)
        if plan is None:
            return None
        outputs = _listed(tuple(Fragment(column.sql) for column in columns) or (Fragment("NULL"),))
        return DuckBatches(self.cursor(), self._statement(outputs, plan, scan, []), self.turns)

    def _statement(self, outputs: Fragment, plan: ScanPlan, scan: TableScan, tail: list[Fragment]) -> Fragment:
        parts = [Fragment("SELECT"), outputs, Fragment("FROM"), self._source(plan, scan)]
        if scan.condition:
            parts += [Fragment("WHERE"), join(" AND ", scan.condition)]
        parts += tail
        return Fragment(" ".join(part.text for part in parts), tuple(value for part in parts for value in part.parameters))

    def _source(self, plan: ScanPlan, scan: TableScan) -> Fragment:
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


class DuckBatches:
    """Arrow batches of one DuckDB statement; so many statements compute at once, others wait for their turn."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, statement: Fragment, turns: threading.BoundedSemaphore) -> None:
        self._turns = turns
        self._cursor = cursor
        self._statement = statement
        self._reader: pa.RecordBatchReader | None = None
        self._stopped = False

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch with rows in it."""
        while not self._turns.acquire(timeout=_TURN_SECONDS):
            if self._stopped:
                raise Cancelled
        try:
            return self._computed()
        finally:
            self._turns.release()

    def _computed(self) -> pa.RecordBatch | None:
        try:
            if self._stopped:
                raise Cancelled
            if self._reader is None:
                values: list[Parameter] = list(self._statement.parameters)
                self._reader = self._cursor.execute(self._statement.text, values).to_arrow_reader(_BATCH_ROWS)
            for batch in self._reader:
                if batch.num_rows:
                    return batch
            return None
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            raise _translated(problem) from problem

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.next_batch()) is not None:
            yield batch

    def interrupt(self) -> None:
        self._stopped = True
        self._cursor.interrupt()

    def close(self) -> None:
        self._reader = None
        self._cursor.close()


class DuckRows:
    """A DuckDB statement as a row source."""

    def __init__(self, engine: LakeEngine, fields: tuple[Field, ...], statement: Fragment) -> None:
        self._fields = fields
        self._batches = DuckBatches(engine.cursor(), statement, engine.turns)

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
    return LakeFileUnreadable(f"The lake cannot be read: {text}")
