"""A whole query being run: its job is made here, at the snapshot, and an executor runs it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import psycopg
from psycopg import sql

from thermocline.errors import ExecutorCrashed, ThermoclineError
from thermocline.gateway.executor.executor_pool import SessionExecutor
from thermocline.gateway.executor.executor_stream import ExecutorStream
from thermocline.gateway.executor.jobs import DividedGroups, PostgresRead, WholeQueryJob
from thermocline.gateway.executor.outcomes import Cancelled
from thermocline.gateway.lake_arm.duckdb_engine import DuckDbEngine, render_source
from thermocline.gateway.sql.expressions.sql_types import SqlType
from thermocline.gateway.sql.fragments import Fragment
from thermocline.gateway.sql.query import tier_sql
from thermocline.gateway.sql.query.grouping import GroupBy
from thermocline.gateway.sql.query.query_plan import QueryPlan, UsedTable
from thermocline.gateway.sql.values import NotProvable
from thermocline.gateway.whole_query.postgres_snapshot import PostgresSnapshot
from thermocline.lake.read.scan import ScanPlan

_PROBLEMS = (psycopg.Error, ThermoclineError, ArithmeticError, ValueError)


@dataclass(slots=True)
class ExecutionReport:
    """What a statement read, for EXPLAIN."""

    files_read: int = 0
    files_skipped: int = 0
    lake_bytes: int = 0
    heap_rows: int = 0
    heap_by: str = "rows"


class PlanExecution:
    """One statement on its way. Problems before the first row are `NotProvable`: Postgres can still answer."""

    def __init__(
        self, engine: DuckDbEngine, snapshot: PostgresSnapshot, statement: QueryPlan, *, heap_limit_bytes: int
    ) -> None:
        self._engine = engine
        self._snapshot = snapshot
        self._statement = statement
        self._heap_limit_bytes = heap_limit_bytes
        self._executor: SessionExecutor = engine.session_executor()
        self._plans: list[ScanPlan] = []
        self._stream: ExecutorStream | None = None
        self._held = ExitStack()
        self._stopped = False
        self.report = ExecutionReport()

    @property
    def stream(self) -> ExecutorStream:
        """The result, once started."""
        if self._stream is None:
            raise Cancelled
        return self._stream

    def start(self) -> None:
        """Computes up to the first rows."""
        try:
            memory_bytes = self._held.enter_context(self._executor.pool.shares.share())
            job = self._job(memory_bytes)
            self._stream = ExecutorStream(self._executor, job, partial(self._engine.record_verified, job.lake))
            if self._stopped:
                raise Cancelled
            counts = self._stream.start()
        except (NotProvable, ExecutorCrashed):
            raise
        except _PROBLEMS as problem:
            if self._stopped:
                raise Cancelled from problem
            raise NotProvable(f"DuckDB could not finish: {str(problem).splitlines()[0][:200]}") from problem
        self.report.heap_rows = sum(rows for name, rows in counts.items() if name.startswith("h"))

    def plan_only(self) -> None:
        """What would be read of the lake, running nothing."""
        for used in self._statement.used_tables:
            self._lake(used)
        self.report.heap_by = "groups, computed by Postgres" if self._statement.has_heap_groups else "rows"

    def interrupt(self) -> None:
        self._stopped = True
        self._snapshot.interrupt()
        if self._stream is not None:
            self._stream.interrupt()

    def close(self) -> None:
        try:
            if self._stream is not None:
                self._stream.close()
        finally:
            self._held.close()
            self._snapshot.close()

    def _job(self, memory_bytes: int) -> WholeQueryJob:
        group_by = self._statement.group_by
        groups: DividedGroups | None
        if group_by is not None and self._statement.has_heap_groups:
            statement, reads, groups = self._divided(group_by)
        else:
            statement, reads, groups = self._undivided()
        return WholeQueryJob(
            lake=self._engine.lake_access(*self._plans),
            snapshot=self._snapshot.name,
            reads=tuple(reads),
            read_limit_bytes=self._heap_limit_bytes,
            groups=groups,
            statement=statement,
            sql_types=tuple(self._statement.query.sql_types),
            memory_bytes=memory_bytes,
        )

    def _undivided(self) -> tuple[Fragment, list[PostgresRead], None]:
        sources, reads = [], []
        for used in self._statement.used_tables:
            lake, delta = self._lake(used), self._delta(used)
            heap = _postgres_read(f"h{used.usage.number}", tier_sql.heap_rows(used))
            reads += [*([delta] if delta is not None else []), heap]
            sources.append(tier_sql.render_source(used, lake, delta=delta is not None, heap=True))
        return tier_sql.render_whole(self._statement, sources), reads, None

    def _divided(self, group_by: GroupBy) -> tuple[Fragment, list[PostgresRead], DividedGroups]:
        """Postgres groups the heap's rows while DuckDB groups the lake's."""
        (used,) = self._statement.used_tables
        self.report.heap_by = "groups, computed by Postgres"
        lake, delta = self._lake(used), self._delta(used)
        groups = DividedGroups(
            heap=_postgres_read("hk", tier_sql.heap_groups(self._statement, group_by)),
            lake_name="lk",
            lake=tier_sql.render_lake_groups(group_by, used, lake, delta=delta is not None),
            columns=tuple(group_by.names),
            sql_types=tuple(group_by.sql_types),
        )
        return tier_sql.render_combined(self._statement, group_by), [delta] if delta is not None else [], groups

    def _lake(self, used: UsedTable) -> tier_sql.LakeRows | None:
        tiers = used.table.tiers
        if tiers is None or tiers.s is None:
            return None
        scan = tier_sql.lake_scan(used, tiers)
        plan = self._engine.plan(scan)
        if plan is None:
            return None
        self._plans.append(plan)
        self.report.files_read += len(plan.data)
        self.report.files_skipped += plan.files_skipped
        self.report.lake_bytes += sum(file.size_bytes for file in plan.data)
        return tier_sql.LakeRows(rows=render_source(plan, scan), plan=plan)

    def _delta(self, used: UsedTable) -> PostgresRead | None:
        """The read of pending corrections, if there are any."""
        tiers = used.table.tiers
        if tiers is None or not self._snapshot.read_value(tier_sql.select_pending(tiers)):
            return None
        return _postgres_read(f"d{used.usage.number}", tier_sql.delta_rows(used, tiers))


def _postgres_read(name: str, asked: tuple[sql.Composable, list[str], list[SqlType]]) -> PostgresRead:
    query, columns, sql_types = asked
    return PostgresRead(name=name, query=query.as_string(None), columns=tuple(columns), sql_types=tuple(sql_types))
