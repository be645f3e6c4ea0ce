"""DuckDB, the gateway's executor: one database, a connection per running statement, rows streamed as Arrow batches."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from thermocline.cold.metadata import LakeTable
from thermocline.cold.scan import ScanPlan, plan_scan
from thermocline.cold.storage import FILE_URI_PATTERN, local_path, plain_location
from thermocline.errors import LakeFileUnreadable, UnknownSnapshot
from thermocline.gateway import metrics
from thermocline.gateway.facts import ColumnFacts
from thermocline.gateway.predicates import Fragment, Parameter, join
from thermocline.gateway.pushdown import LakeQuery, TableScan
from thermocline.gateway.rows import EncodedRows, encode_rows
from thermocline.gateway.sources import Cancelled, ConstantRows, RowSource
from thermocline.gateway.wire.messages import Field

_BATCH_ROWS = 32_768

_WITHOUT_POSITIONS = """
(SELECT * FROM read_parquet(?, filename = 'tc_file', file_row_number = true, {options}) d
 WHERE NOT EXISTS (
    SELECT 1
    FROM (SELECT regexp_replace(file_path, ?, '\\1') AS said, pos FROM read_parquet(?, hive_partitioning = false)) p
    JOIN (SELECT unnest(CAST(? AS VARCHAR[])) AS said, unnest(CAST(? AS VARCHAR[])) AS here) files ON files.said = p.said
    WHERE files.here = d.tc_file AND p.pos = d.file_row_number))
"""
_MAX_VERIFIED_FILES = 200_000


class LakeEngine:
    """Runs scans."""

    def __init__(self, *, threads: int, memory_limit_bytes: int) -> None:
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
        self._lock = threading.Lock()
        self._iceberg_loaded = False
        self._verified: set[str] = set()

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
        return DuckBatches(self.cursor(), self._statement(outputs, plan, scan, []))

    def _statement(self, outputs: Fragment, plan: ScanPlan, scan: TableScan, tail: list[Fragment]) -> Fragment:
        parts = [Fragment("SELECT"), outputs, Fragment("FROM"), self._source(plan, scan)]
        if scan.condition:
            parts += [Fragment("WHERE"), join(" AND ", scan.condition)]
        parts += tail
        return Fragment(" ".join(part.text for part in parts), tuple(value for part in parts for value in part.parameters))

    def _source(self, plan: ScanPlan, scan: TableScan) -> Fragment:
        columns = tuple(scan.facts.columns.values())
        if any(delete.is_equality_delete or not delete.path.endswith(".parquet") for delete in plan.deletes):
            self._load_iceberg()
            return _iceberg_source(plan.table, plan.snapshot_id, columns)
        paths = [local_path(file.path) for file in plan.data]
        self._check_field_ids(paths)
        types = ", ".join(f"{c.field.field_id}: {{name: '{c.sql}', type: '{c.duckdb_type}', default_value: NULL}}" for c in columns)
        options = f"hive_partitioning = false, union_by_name = false, schema = MAP {{{types}}}"
        if not plan.deletes:
            return Fragment(f"read_parquet(?, {options})", (paths,))
        deletes = [local_path(delete.path) for delete in plan.deletes]
        said = [plain_location(file.path) for file in plan.data]
        return Fragment(_WITHOUT_POSITIONS.replace("{options}", options), (paths, FILE_URI_PATTERN, deletes, said, paths))

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

    def _load_iceberg(self) -> None:
        with self._lock:
            if not self._iceberg_loaded:
                # avro first: iceberg needs it and may not fetch it.
                for name in ("avro", "iceberg"):
                    self._root.load_extension(str(_extension(name)))
                self._iceberg_loaded = True


def _extension(name: str) -> Path:
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or spec.origin is None:
        raise LakeFileUnreadable(f"DuckDB's {name} extension is not installed.")
    found = sorted(Path(spec.origin).parent.glob(f"extensions/*/{name}.duckdb_extension"))
    if not found:
        raise LakeFileUnreadable(f"DuckDB's {name} extension is not installed.")
    return found[-1]


def _iceberg_source(table: LakeTable, snapshot_id: int, columns: tuple[ColumnFacts, ...]) -> Fragment:
    listed = ", ".join('"' + column.field.name.replace('"', '""') + f'" AS {column.sql}' for column in columns)
    inner = ("(SELECT", listed, "FROM iceberg_scan(?, snapshot_from_id => CAST(? AS UBIGINT)))")
    return Fragment(" ".join(inner), (local_path(table.location), snapshot_id))


def _listed(fragments: tuple[Fragment, ...]) -> Fragment:
    texts = [f"{fragment.text} AS o{number}" for number, fragment in enumerate(fragments)]
    return Fragment(", ".join(texts), tuple(value for fragment in fragments for value in fragment.parameters))


class DuckBatches:
    """Arrow batches of one DuckDB statement."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, statement: Fragment) -> None:
        self._cursor = cursor
        self._statement = statement
        self._reader: pa.RecordBatchReader | None = None
        self._stopped = False

    def next_batch(self) -> pa.RecordBatch | None:
        """The next batch with rows in it."""
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
        self._batches = DuckBatches(engine.cursor(), statement)

    def fields(self) -> tuple[Field, ...]:
        return self._fields

    def next_rows(self) -> EncodedRows | None:
        batch = self._batches.next_batch()
        return None if batch is None else encode_rows(batch)

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
