"""Scans of the lake: planned here, run by DuckDB in an executor."""

from __future__ import annotations

import random
from functools import partial

from thermocline.errors import UnknownSnapshot
from thermocline.gateway import metrics
from thermocline.gateway.executor.executor_pool import ExecutorPool, SessionExecutor
from thermocline.gateway.executor.executor_stream import ExecutorRows, ExecutorStream
from thermocline.gateway.executor.jobs import LakeAccess, ScanJob
from thermocline.gateway.lake_arm.row_sources import ConstantRows, RowSource
from thermocline.gateway.lake_arm.scan_sql import render_scan
from thermocline.gateway.sql.column_mapping import MappedColumn
from thermocline.gateway.sql.fragments import Fragment, join_fragments
from thermocline.gateway.sql.pushdown.select import LakeQuery
from thermocline.gateway.sql.table_scan import TableScan
from thermocline.lake.read.scan import ScanPlan, plan_scan, thin_scan
from thermocline.lake.read.storage import readable_path
from thermocline.runtime.memory.bounded_cache import BoundedCache
from thermocline.runtime.object_store import current_store, is_object_location

_MAX_BATCH_ROWS = 32_768
_FEWEST_BATCH_ROWS = 2_048
_BATCH_BYTES = 64 << 20
_SAMPLED_FROM = 20
_SHORT_TOP_ROWS = 10_000
_LITTLE_BYTES = 32 << 20

_VERIFIED_BYTES = 64 << 20
_PATH_BYTES = 120


class DuckDbEngine:
    """Runs scans."""

    def __init__(self, executors: ExecutorPool) -> None:
        self._executors = executors
        self._verified: BoundedCache[str, bool] = BoundedCache(max_bytes=_VERIFIED_BYTES)

    def session_executor(self) -> SessionExecutor:
        """The executor of one more session."""
        return SessionExecutor(self._executors)

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

    def open(self, query: LakeQuery, executor: SessionExecutor) -> RowSource:
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
        job = ScanJob(
            lake=self.lake_access(plan),
            statement=statement,
            batch_rows=batch_rows(plan),
            type_oids=tuple(field.type_oid for field in fields),
            holds_rows=_holds_much(query, plan),
        )
        return ExecutorRows(fields, self._stream(executor, job))

    def open_columns(
        self, scan: TableScan, columns: tuple[MappedColumn, ...], executor: SessionExecutor
    ) -> ExecutorStream | None:
        """Whole columns of a scan's candidate rows, or `None` when there are none."""
        plan = self.plan(scan)
        if plan is None:
            return None
        outputs = _listed(tuple(Fragment(column.sql) for column in columns) or (Fragment("NULL"),))
        job = ScanJob(
            lake=self.lake_access(plan),
            statement=self._statement(outputs, plan, scan, []),
            batch_rows=batch_rows(plan),
            type_oids=(),
            holds_rows=False,
        )
        return self._stream(executor, job)

    def _stream(self, executor: SessionExecutor, job: ScanJob) -> ExecutorStream:
        return ExecutorStream(executor, job, partial(self.record_verified, job.lake))

    def _statement(self, outputs: Fragment, plan: ScanPlan, scan: TableScan, tail: list[Fragment]) -> Fragment:
        parts = [Fragment("SELECT"), outputs, Fragment("FROM"), render_source(plan, scan)]
        condition = scan.condition
        if scan.sampled_rows is not None:
            condition = (*condition, Fragment("random() < CAST(? AS DOUBLE)", (scan.sampled_rows / plan.row_count,)))
        if condition:
            parts += [Fragment("WHERE"), join_fragments(" AND ", condition)]
        parts += tail
        return Fragment(
            " ".join(part.text for part in parts), tuple(value for part in parts for value in part.parameters)
        )

    def lake_access(self, *plans: ScanPlan) -> LakeAccess:
        """How an executor reaches the files of the plans, and those among them that no statement has read yet."""
        files = [file for plan in plans for file in plan.data]
        files += [delete for plan in plans for delete in plan.deletes if delete.equality_ids]
        paths = [readable_path(file.path) for file in files]
        return LakeAccess(
            store=current_store() if any(map(is_object_location, paths)) else None,
            unchecked_paths=tuple(path for path in paths if not self._verified.read(path)),
        )

    def record_verified(self, lake: LakeAccess) -> None:
        """An executor found field ids in these files."""
        for path in lake.unchecked_paths:
            self._verified.put(path, value=True, size_bytes=_PATH_BYTES + len(path))


def render_source(plan: ScanPlan, scan: TableScan) -> Fragment:
    """The rows of a plan, as they stand after FROM."""
    return render_scan(plan, tuple(scan.mapped_table.columns.values()))


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
    return max(_FEWEST_BATCH_ROWS, min(_MAX_BATCH_ROWS, _BATCH_BYTES // wide))
